"""Bounds, minima, closed-form gradients, rebuilds, mixtures and released variants, as statements that can fail."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import cross_polytope, simplex, tangent, unit
from hypersphere.objectives import Objective
from hypersphere.testing.example import some_labels, views
from tests import cases
from tests import reference as ref

Params = dict[str, Any]


def per_anchor(name: str, z1: Tensor, z2: Tensor, **params: Any) -> Tensor:
    return hs.create_objective(name, reduction="none", **params)(z1, z2)


def gradients(objective: Objective, *z: Tensor, part: str = "loss") -> list[Tensor]:
    leaves = [each.clone().requires_grad_() for each in z]
    slopes = torch.autograd.grad(objective.terms(*leaves)[part], leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if s is None else s for leaf, s in zip(leaves, slopes, strict=True)]


def without_diagonal(matrix: Tensor, fill: float = 0.0) -> Tensor:
    return matrix.masked_fill(torch.eye(len(matrix), dtype=torch.bool), fill)


def row_softmax(similarities: Tensor, temperature: float) -> Tensor:
    """Softmax of every row over the columns j ≠ i, 0 at j = i."""
    return torch.softmax(without_diagonal(similarities, -math.inf) / temperature, dim=1)


# ---------------------------------------------------------------------------------------------------------
# bounds and identities, anchor by anchor


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two views of 2 to 9 instances; at times the positives are exchanged, so that they are bad ones."""
    z1, z2 = views(draw(st.integers(2, 9)), draw(st.integers(2, 6)), draw(st.integers(0, 10**6)))
    return z1, z2.roll(draw(st.integers(0, 1)), 0)


TEMPERATURES = st.floats(0.02, 2.0)
SLACK = 1e-10


@settings(deadline=None)
@given(batches(), TEMPERATURES)
def test_infonce_is_at_most_log_two_above_dcl_plus_and_dcl_plus_below_mpt(
    batch: tuple[Tensor, Tensor], tau: float
) -> None:
    """infonce ≤ log 2 + dcl_plus ≤ log 2 + mpt/τ with the margin τ log(N-1), and dcl_plus ≤ infonce."""
    infonce, dcl_plus = (per_anchor(name, *batch, temperature=tau) for name in ("infonce", "dcl_plus"))
    mpt = per_anchor("mpt", *batch, margin=tau * math.log(len(batch[0]) - 1))
    assert (infonce - dcl_plus >= -SLACK).all()
    assert (infonce - dcl_plus <= math.log(2) + SLACK).all()
    assert (dcl_plus <= mpt / tau + SLACK).all()


def test_the_gap_between_infonce_and_dcl_plus_is_log_two_where_dcl_is_zero() -> None:
    """One negative as close as the positive: dcl = 0."""
    x = torch.eye(2, dtype=torch.float64)
    y = torch.ones(2, 2, dtype=torch.float64)
    gap = per_anchor("infonce", x, y) - per_anchor("dcl_plus", x, y, temperature=0.05)
    torch.testing.assert_close(gap, torch.full_like(gap, math.log(2)), rtol=0, atol=1e-12)


@settings(deadline=None)
@given(batches(), TEMPERATURES)
def test_infonce_is_the_softplus_of_dcl(batch: tuple[Tensor, Tensor], tau: float) -> None:
    infonce, dcl = (per_anchor(name, *batch, temperature=tau) for name in ("infonce", "dcl"))
    torch.testing.assert_close(infonce, torch.logaddexp(dcl, torch.zeros_like(dcl)), rtol=1e-10, atol=0)


@settings(deadline=None)
@given(batches(), TEMPERATURES, st.floats(0.0, math.pi))
def test_arccon_is_never_below_infonce_while_its_angle_stays_below_pi(
    batch: tuple[Tensor, Tensor], tau: float, margin: float
) -> None:
    infonce = per_anchor("infonce", *batch, temperature=tau)
    arccon = per_anchor("arccon", *batch, temperature=tau, angle=margin)
    angles = (unit(batch[0]) * unit(batch[1])).sum(dim=1).clamp(-1, 1).arccos()
    assert (arccon >= infonce - SLACK)[angles + margin <= math.pi].all()
    plain = per_anchor("arccon", *batch, temperature=tau, angle=0.0)
    torch.testing.assert_close(plain, infonce, rtol=1e-12, atol=1e-14)


def test_arccon_may_be_below_infonce_beyond_pi() -> None:
    """cos(θ+u) rises again once θ+u > π."""
    x = torch.eye(2, dtype=torch.float64)
    assert (per_anchor("arccon", x, -x, angle=math.pi, temperature=1.0) < per_anchor("infonce", x, -x)).all()


@settings(deadline=None, max_examples=30)
@given(batches())
def test_the_energy_of_mhe_is_the_uniformity_with_t_one(batch: tuple[Tensor, Tensor]) -> None:
    energy = hs.create_objective("mhe", weight=1.0, views="both").terms(*batch)["energy"]
    uniformity = hs.create_objective("align_uniform", weight=1.0, t=1.0).terms(*batch)["uniformity"]
    torch.testing.assert_close(energy, 2 * uniformity, rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------------------------------------------------
# minima


MINIMA: list[tuple[str, Params, Callable[[int, float], float]]] = [
    ("dcl", {"temperature": 0.3}, lambda n, k: math.log(n - 1) - k / 0.3),
    ("dcl", {"temperature": 0.3, "negatives": "both"}, lambda n, k: math.log(2 * n - 2) - k / 0.3),
    ("dhel", {}, lambda n, k: math.log(n - 1) - k / 0.3),
    ("dhel", {"energy": "symmetric"}, lambda n, k: math.log(n - 1) - k / 0.3),
    ("dhel", {"energy": "both"}, lambda n, k: -1 / 0.3 + 2 * (math.log(n - 1) - 1 / ((n - 1) * 0.3))),
    ("kcl", {}, lambda n, k: -1 + 16 * math.exp(-4 * k)),
    ("kcl", {"views": "both"}, lambda n, k: -2 + 32 * math.exp(-4 * k)),
    ("kcl", {"kernel": "log"}, lambda n, k: -16 * 0.5 * math.log1p(4 * k)),
    ("kcl", {"kernel": "imq"}, lambda n, k: -1 + 16 * 2 / math.sqrt(4 + 2 * k)),
    ("kcl", {"kernel": "riesz", "s": -1.0}, lambda n, k: -16 * math.sqrt(2 * k)),
    ("kcl", {"kernel": "gaussian_riesz", "s": 1.0}, lambda n, k: -1 + 16 / math.sqrt(2 * k)),
    ("kcl", {"kernel": "gaussian_riesz", "s": -1.5}, lambda n, k: -1 - 16 * (2 * k) ** 0.75),
    ("mhe", {}, lambda n, k: -10 * 2 * k),
    ("mhs", {}, lambda n, k: -math.sqrt(2 * k)),
]
MINIMA_IDS = ["-".join([name, *(f"{k}={v}" for k, v in params.items())]) for name, params, _ in MINIMA]


@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize(("name", "params", "closed"), MINIMA, ids=MINIMA_IDS)
def test_the_aligned_simplex_has_the_smallest_value(
    name: str, params: Params, closed: Callable[[int, float], float], size: int
) -> None:
    objective, best = hs.create_objective(name, **params), simplex(size, 8)
    smallest = closed(size, size / (size - 1))
    clamp = 1.1e-6 if params.get("kernel") == "riesz" else 0  # its alignment keeps distances above 1e-6
    assert objective(best, best).item() == pytest.approx(smallest, rel=1e-12, abs=clamp)
    for seed in range(10):
        assert objective(*views(size, 8, seed)).item() >= smallest
        noise = views(size, 8, seed)
        assert objective(best + 0.05 * noise[0], best + 0.05 * noise[1]).item() > smallest


@pytest.mark.parametrize("weight", [0.0051, 1.0, 30.0])
def test_unit_barlow_cannot_go_below_what_its_trace_allows(weight: float) -> None:
    """The trace of C is the mean cosine ≤ 1, so L ≥ (D-1)²/D, reached at C = I/D."""
    objective = hs.create_objective("barlow", normalization="unit", weight=weight)
    dim = 4
    best = cross_polytope(dim)
    torch.testing.assert_close(best.T @ best / len(best), torch.eye(dim, dtype=torch.float64) / dim)
    assert objective(best, best).item() == pytest.approx((dim - 1) ** 2 / dim, rel=1e-12)
    for seed in range(20):
        assert objective(*views(2 * dim, dim, seed)).item() > (dim - 1) ** 2 / dim


# ---------------------------------------------------------------------------------------------------------
# closed-form gradients


def own_gradient(name: str, params: Params, anchor: Tensor, positive: Tensor, keys: Tensor) -> Tensor:
    """∂L_i/∂h_i as the papers write it, from one anchor (D,), its positive (D,) and its negatives (N-1, D)."""
    c, s = anchor @ positive, keys @ anchor
    top, hardest = s.max(), keys[s.argmax()]
    tau, margin = params.get("temperature", 1.0), params.get("margin", 0.0)
    share = torch.softmax(s / tau, dim=0)
    pull = (share @ keys - positive) / tau
    odds = torch.logsumexp(s / tau, dim=0)
    match name:
        case "infonce":
            return torch.exp(odds - torch.logaddexp(odds, c / tau)) * pull
        case "dcl":
            return pull
        case "dcl_plus":
            return (odds > c / tau) * pull
        case "mpt":
            return (c - top < margin) * (hardest - positive)
        case "met":
            near, own = (2 - 2 * top).sqrt(), (2 - 2 * c).sqrt()
            return (near - own < margin) * (hardest / near - positive / own)
        case "mat":
            near, own = top.arccos(), c.arccos()
            return (near - own < margin) * (hardest / near.sin() - positive / own.sin())
        case "arccon":
            theta = c.arccos()
            shifted = (theta + params["angle"]).cos() / tau
            ratio = (theta + params["angle"]).sin() / theta.sin()
            return torch.exp(odds - torch.logaddexp(odds, shifted)) * (share @ keys - ratio * positive) / tau
    raise ValueError(name)


OWN: list[cases.Case] = [
    ("infonce", {"temperature": 0.2}),
    ("dcl", {"temperature": 0.2}),
    ("dcl_plus", {"temperature": 0.2}),
    ("mpt", {"margin": 0.2}),
    ("met", {"margin": 0.3}),
    ("mat", {"margin": 0.2}),
    ("arccon", {"temperature": 0.2, "angle": 0.4}),
]


@pytest.mark.parametrize(("name", "params"), **cases.named(OWN))
def test_an_anchors_own_gradient_has_its_closed_form(name: str, params: Params) -> None:
    stopped = 0
    for seed in range(4):
        h, g = (unit(z) for z in views(6, 4, seed))
        leaf = h.clone().requires_grad_()
        losses = per_anchor(name, leaf, g, **params)
        for i in range(6):
            others = [j for j in range(6) if j != i]
            (found,) = torch.autograd.grad(losses[i], leaf, retain_graph=True)
            closed = tangent(own_gradient(name, params, h[i], g[i], g[others]), h[i])
            torch.testing.assert_close(tangent(found[i], h[i]), closed, rtol=1e-9, atol=1e-12)
            assert (found[others] == 0).all()
            stopped += int((found[i] == 0).all())
    gated = name in ("dcl_plus", "mpt", "met", "mat")
    assert 0 < stopped < 24 if gated else stopped == 0


def dhel_gradient(h: Tensor, g: Tensor) -> Tensor:
    """(1/τ)( Σ_{j≠i} (q_ij + q_ji) h_j - h'_i ), over N for the mean."""
    q = row_softmax(h @ h.T, 0.3)
    return ((q + q.T) @ h - g) / (0.3 * len(h))


def ntxent_gradient(h: Tensor, g: Tensor) -> Tensor:
    """The negative of (1/τ)[(1-P_i) + (1-P_j(i))] z_j(i) - (1/τ) Σ_a [p_ia + p_ai] z_a, over 2N for the mean."""
    size, z = len(h), torch.cat([h, g])
    p = row_softmax(z @ z.T, 0.5)
    both = p + p.T
    own = torch.arange(size)
    toward = 2 - both[own, own + size]
    both[own, own + size] = 0
    return (both[:size] @ z - toward.unsqueeze(1) * g) / (0.5 * 2 * size)


def cross_align_uniform_gradient(h: Tensor, g: Tensor) -> Tensor:
    """-(1-λ)(α/N)(2-2c_i)^{(α-2)/2} h'_i + λ 2t Σ_{j≠i} e^{2t s_ij} h'_j / Σ_{k≠l} e^{2t s_kl}; α 3, t 2, λ .3."""
    distance = (2 - 2 * (h * g).sum(dim=1, keepdim=True)).sqrt()
    powers = without_diagonal(torch.exp(4 * h @ g.T))
    return -0.7 * 3 / len(h) * distance * g + 0.3 * 4 * powers @ g / powers.sum()


def same_align_uniform_gradient(h: Tensor, g: Tensor) -> Tensor:
    """-(1-λ)(2/N) h'_i + (λ/2) Σ_j 2t e^{2t a_ij} h_j / Σ_{k<l} e^{2t a_kl}: half, as the views are averaged."""
    powers = without_diagonal(torch.exp(4 * h @ h.T))
    return -0.7 * 2 / len(h) * g + 0.3 / 2 * 4 * powers @ h / (powers.sum() / 2)


def mhe_gradient(h: Tensor, g: Tensor) -> Tensor:
    """Σ_j 2ν e^{2a_ij} h_j / Σ_{k<l} e^{2a_kl} - (2/N) h'_i."""
    powers = without_diagonal(torch.exp(2 * h @ h.T))
    return 2 * 10 * powers @ h / (powers.sum() / 2) - 2 / len(h) * g


def barlow_gradient(h: Tensor, g: Tensor, weights: Tensor | None = None) -> Tensor:
    """(2/N)( -A h'_i + (ν/N) Σ_{j≠i} (h'_i·h'_j) h_j ), A = I - (1-ν) diag C."""
    size, diagonal = len(h), (h * g).mean(dim=0)
    weights = g @ g.T if weights is None else weights
    return 2 / size * (-(1 - (1 - 30) * diagonal) * g + 30 / size * without_diagonal(weights) @ h)


FULL: list[tuple[str, Params, Callable[[Tensor, Tensor], Tensor]]] = [
    ("dhel", {"temperature": 0.3}, dhel_gradient),
    ("ntxent", {"temperature": 0.5}, ntxent_gradient),
    ("align_uniform", {"pairs": "cross", "alpha": 3.0, "weight": 0.3}, cross_align_uniform_gradient),
    ("align_uniform", {"pairs": "same", "weight": 0.3}, same_align_uniform_gradient),
    ("mhe", {}, mhe_gradient),
    ("barlow", {"normalization": "unit", "weight": 30.0}, barlow_gradient),
]


@pytest.mark.parametrize(("name", "params", "closed"), FULL, ids=[closed.__name__ for *_, closed in FULL])
def test_the_full_gradient_in_the_first_view_has_its_closed_form(
    name: str, params: Params, closed: Callable[[Tensor, Tensor], Tensor]
) -> None:
    h, g = (unit(z) for z in views(6, 4))
    found, _ = gradients(hs.create_objective(name, **params), h, g)
    torch.testing.assert_close(tangent(found, h), tangent(closed(h, g), h), rtol=1e-9, atol=1e-12)


def test_the_weight_of_unit_barlow_is_that_of_the_other_view_alone() -> None:
    """h_i·h'_j in its place, as printed in Li et al. 2024, Eq. 10, is not the gradient."""
    h, g = (unit(z) for z in views(6, 4))
    found, _ = gradients(hs.create_objective("barlow", normalization="unit", weight=30.0), h, g)
    assert (found - tangent(barlow_gradient(h, g, h @ g.T), h)).abs().max() > 1e-2


# dK/dq, first of the kernel of alignment, then of that of the energy.
KERNEL_SLOPES: list[tuple[Params, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
    ({"kernel": "gaussian"}, lambda q: -2 * torch.exp(-2 * q), lambda q: -2 * torch.exp(-2 * q)),
    ({"kernel": "log"}, lambda q: -1 / (1 + 2 * q), lambda q: -1 / (1 + 2 * q)),
    ({"kernel": "imq"}, lambda q: -((4 + q) ** -1.5), lambda q: -((4 + q) ** -1.5)),
    ({"kernel": "riesz", "s": -1.0}, lambda q: -0.5 * q**-0.5, lambda q: -0.5 * q**-0.5),
    ({"kernel": "gaussian_riesz", "s": 1.0}, lambda q: -2 * torch.exp(-2 * q), lambda q: -0.5 * q**-1.5),
]


@pytest.mark.parametrize(("params", "align", "repel"), KERNEL_SLOPES, ids=[p["kernel"] for p, *_ in KERNEL_SLOPES])
def test_the_gradient_of_kcl_follows_the_slope_of_its_kernel(
    params: Params, align: Callable[[Tensor], Tensor], repel: Callable[[Tensor], Tensor]
) -> None:
    """(2/N) K_A'(q_ii) h'_i - (4γ/(N(N-1))) Σ_{j≠i} K_U'(q_ij) h_j."""
    size, gamma = 6, 3.0
    h, g = (unit(z) for z in views(size, 4))
    found, other = gradients(hs.create_objective("kcl", gamma=gamma, **params), h, g)
    pull = 2 / size * align(2 - 2 * (h * g).sum(dim=1, keepdim=True))
    push = -4 * gamma / (size * (size - 1)) * without_diagonal(repel(without_diagonal(2 - 2 * h @ h.T, 1.0)))
    torch.testing.assert_close(found, tangent(pull * g + push @ h, h), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(other, tangent(pull * h, g), rtol=1e-9, atol=1e-12)


def test_the_covariance_part_of_vicreg_has_the_exact_off_diagonal_gradient() -> None:
    """(4ν/(D(N-1))) offdiag(Cov) (z_i - mean), on raw features."""
    z1, z2 = views(6, 4)
    objective = hs.create_objective("vicreg", invariance=0.0, variance=0.0, covariance=0.7)
    for z, found in zip((z1, z2), gradients(objective, z1, z2), strict=True):
        centred = z - z.mean(dim=0)
        covariance = centred.T @ centred / 5
        expected = 4 * 0.7 / (4 * 5) * centred @ without_diagonal(covariance)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)


# ---------------------------------------------------------------------------------------------------------
# the paradigm rebuilds the direct losses


def above_zero(positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
    """1[dcl_i > 0] at temperature .2."""
    others = torch.where(mask, negatives / 0.2, -math.inf).logsumexp(dim=1)
    return (others > positive / 0.2).to(positive)


SCALED = {"name": "softmax", "temperature": 0.2, "scaled": True}
SHIFTED = {"name": "softmax", "temperature": 0.2, "angle": 0.3}
REBUILDS: list[tuple[str, Params, Params]] = [
    ("dcl", {"temperature": 0.2}, {"dissipation": "none", "weight": SCALED}),
    ("dcl_plus", {"temperature": 0.2}, {"dissipation": above_zero, "weight": SCALED}),
    ("mpt", {"margin": 0.6}, {"dissipation": {"name": "margin", "margin": 0.6}, "weight": "hardest"}),
    ("mat", {"margin": 0.6}, {"dissipation": {"name": "angle", "margin": 0.6}, "weight": "angle", "ratio": "angle"}),
    (
        "arccon",
        {"temperature": 0.2, "angle": 0.3},
        {"dissipation": SHIFTED, "weight": SCALED, "ratio": {"name": "arccon", "angle": 0.3}},
    ),
    ("dhel", {"temperature": 0.2}, {"dissipation": "none", "weight": SCALED, "negatives": "same"}),
]


@pytest.mark.parametrize(("name", "params", "components"), REBUILDS, ids=[name for name, *_ in REBUILDS])
def test_the_paradigm_rebuilds_the_full_gradient_in_both_views(name: str, params: Params, components: Params) -> None:
    z1, z2 = views(7, 4)
    rebuilt = gradients(hs.create_objective("paradigm", **components), z1, z2)
    for one, two in zip(rebuilt, gradients(hs.create_objective(name, **params), z1, z2), strict=True):
        assert two.abs().max() > 1e-3
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_the_paradigm_rebuilds_mhe_with_a_global_weight_and_a_ratio_of_its_own() -> None:
    """W_ij = νN e^{2a_ij}/Σ_{k<l}, as the mean over anchors counts every pair from both ends; R_i = 2/Σ_j W_ij."""

    def weight(positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        powers = torch.exp(2 * negatives) * mask
        return 10 * len(positive) * powers / (powers.sum() / 2)

    z1, z2 = views(7, 4)
    rebuilt = hs.create_objective(
        "paradigm",
        dissipation="none",
        weight=weight,
        ratio=lambda p, n, m: 2 / weight(p, n, m).sum(dim=1),
        negatives="same",
    )
    expected = gradients(hs.create_objective("mhe", weight=10.0), z1, z2)
    for one, two in zip(gradients(rebuilt, z1, z2), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------
# subsets


def mean_over_subsets(objective: Objective, z1: Tensor, z2: Tensor, size: int) -> float:
    subsets = [list(s) for s in itertools.combinations(range(len(z1)), size)]
    return sum(objective(z1[s], z2[s]).item() for s in subsets) / len(subsets)


@pytest.mark.parametrize("both", [False, True], ids=["anchor", "both"])
@pytest.mark.parametrize("params", [p for p, *_ in KERNEL_SLOPES], ids=[p["kernel"] for p, *_ in KERNEL_SLOPES])
def test_kcl_is_the_mean_over_its_subsets_whatever_the_kernel(params: Params, both: bool) -> None:
    objective = hs.create_objective("kcl", views="both" if both else "anchor", **params)
    z1, z2 = views(6, 4)
    for size in (2, 4, 5):
        found = mean_over_subsets(objective, z1, z2, size)
        assert found == pytest.approx(objective(z1, z2).item(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["infonce", "dhel"])
@pytest.mark.parametrize("size", [2, 4])
def test_infonce_and_dhel_depend_on_the_batch_size_beyond_a_constant(name: str, size: int) -> None:
    objective = hs.create_objective(name)
    z1, z2 = views(6, 4)
    small = mean_over_subsets(objective, z1, z2, size) - math.log(size - 1)
    assert abs(small - (objective(z1, z2).item() - math.log(5))) > 1e-2


# ---------------------------------------------------------------------------------------------------------
# mixup


def mixed_vectors(x: ref.Matrix, y: ref.Matrix, both: bool, kind: str, mix: float, normalize: bool) -> ref.Matrix:
    """One mix per anchor x_i: of its two hardest negatives, or of its positive and the next instance's vector."""
    found = []
    for i, anchor in enumerate(x):
        if kind == "positive":
            first, second = y[i], y[(i + 1) % len(y)]
        else:
            keys = [v for view in ((y, x) if both else (y,)) for j, v in enumerate(view) if j != i]
            first, second = sorted(keys, key=lambda v, a=anchor: -ref.dot(a, v))[:2]
        vector = [mix * a + (1 - mix) * b for a, b in zip(first, second, strict=True)]
        found.append([v / ref.norm(vector) for v in vector] if normalize else vector)
    return found


def mixup_loops(
    z1: ref.Rows, z2: ref.Rows, both: bool, mixtures: list[ref.Matrix] | None = None, tau: float = 0.3, **how: Any
) -> float:
    """InfoNCE, or NT-Xent if ``both``, with a mix in each denominator; ``mixtures`` holds them still."""
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    losses = []
    for turn, (x, y) in enumerate([(h, g), (g, h)] if both else [(h, g)]):
        mixed = mixed_vectors(x, y, both, **how) if mixtures is None else mixtures[turn]
        for i, anchor in enumerate(x):
            logits = [ref.dot(anchor, key) / tau for key in y] + [ref.dot(anchor, mixed[i]) / tau]
            logits += [ref.dot(anchor, x[j]) / tau for j in range(len(x)) if both and j != i]
            losses.append(ref.logsumexp(logits) - logits[i])
    return ref.mean(losses)


MIXUPS = list(itertools.product(["infonce", "ntxent"], ["negatives", "positive"], [False, True]))
MIXUP_IDS = [f"{base}-{kind}{'-unit' * normalize}" for base, kind, normalize in MIXUPS]


@pytest.mark.parametrize(("base", "kind", "normalize"), MIXUPS, ids=MIXUP_IDS)
def test_mixup_equals_plain_loops_and_its_mix_carries_no_gradient(base: str, kind: str, normalize: bool) -> None:
    how = {"kind": kind, "mix": 0.3, "normalize": normalize}
    both = base == "ntxent"
    objective = hs.create_objective("mixup", base={"name": base, "temperature": 0.3}, **how)
    z1, z2 = views(5, 4)
    assert objective(z1, z2).item() == pytest.approx(mixup_loops(z1, z2, both, **how), rel=1e-12)
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    still = [mixed_vectors(h, g, both, **how), mixed_vectors(g, h, both, **how)]
    frozen = ref.finite_difference(lambda x, y: mixup_loops(x, y, both, still), z1.numpy(), z2.numpy())
    moving = ref.finite_difference(lambda x, y: mixup_loops(x, y, both, **how), z1.numpy(), z2.numpy())
    for slope, expected in zip(gradients(objective, z1, z2), frozen, strict=True):
        np.testing.assert_allclose(slope.numpy(), expected, atol=1e-8)
    assert np.abs(np.asarray(frozen[1]) - np.asarray(moving[1])).max() > 1e-3


def mixed_similarity(z1: Tensor, z2: Tensor, **params: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Anchor by anchor: h_i·mix read off e^{L_mix} - e^L at temperature 1, the positive and the hardest cosine."""
    base = {"name": "infonce", "temperature": 1.0, "reduction": "none"}
    more = hs.create_objective("mixup", base=base, reduction="none", **params)(z1, z2)
    s = unit(z1) @ unit(z2).T
    plain = per_anchor("infonce", z1, z2, temperature=1.0)
    return (more.exp() - plain.exp()).log() + s.diagonal(), s.diagonal(), without_diagonal(s, -2.0).amax(dim=1)


@settings(deadline=None)
@given(batches(), st.floats(0.0, 1.0))
def test_an_unnormalised_mix_of_negatives_is_never_harder_than_the_hardest(
    batch: tuple[Tensor, Tensor], mix: float
) -> None:
    similarity, _, hardest = mixed_similarity(*batch, mix=mix)
    assert (similarity <= hardest + 1e-9).all()


def test_a_normalised_mix_of_negatives_is_sometimes_harder() -> None:
    harder = []
    for seed in range(40):
        similarity, _, hardest = mixed_similarity(*views(8, 4, seed), mix=0.5, normalize=True)
        harder += (similarity > hardest + 1e-9).tolist()
    assert 0.05 < sum(harder) / len(harder) < 0.95


@settings(deadline=None)
@given(batches(), st.floats(0.02, 2.0), st.floats(0.0, 0.49))
def test_the_bounds_of_mixup_hold_for_every_anchor(batch: tuple[Tensor, Tensor], tau: float, mix: float) -> None:
    """n+1 negatives; (1-λ) in place of 1 where a mix with the positive is the hardest of them."""
    base = {"name": "infonce", "temperature": tau}
    total = tau * math.log(len(batch[0]))
    for kind in ("negatives", "positive"):
        loss = hs.create_objective("mixup", base=base, reduction="none", kind=kind, mix=mix)(*batch)
        similarity, positive, hardest = mixed_similarity(*batch, kind=kind, mix=mix)
        share = torch.where((similarity > hardest) & (kind == "positive"), 1 - mix, 1.0)
        bound = math.log(2) + share / tau * torch.relu(hardest - positive + total / share)
        assert (loss <= bound + SLACK).all()


# ---------------------------------------------------------------------------------------------------------
# rank one


SIGNS = [
    [1, 1, 1, 1, 1, 1],
    [1, 1, -1, 1, 1, -1],
    [1, -1, -1, 1, -1, -1],
    [1, 1, 1, -1, -1, -1],
    [1, 1, 1, 1, 1, -1],
    [1, -1, 1, -1, 1, 1],
]


def ntxent_at_rank_one(signs: list[int], tau: float) -> tuple[Tensor, Tensor]:
    """Gradient and eigenvalues of the Hessian of NT-Xent where all rows of both views are ± one vector."""
    size = len(signs) // 2
    objective = hs.create_objective("ntxent", temperature=tau, reduction="sum")
    direction = unit(torch.tensor([[0.3, -0.5, 0.8]], dtype=torch.float64))
    start = torch.tensor(signs, dtype=torch.float64).unsqueeze(1) * direction

    def loss(z: Tensor) -> Tensor:
        return objective(z[:size], z[size:])

    slope = torch.autograd.functional.jacobian(loss, start)
    hessian = torch.autograd.functional.hessian(loss, start).reshape(start.numel(), start.numel())
    return slope, torch.linalg.eigvalsh(hessian)


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("signs", SIGNS, ids=["".join("+-"[s < 0] for s in signs) for signs in SIGNS])
def test_every_pattern_of_signs_at_rank_one_is_a_saddle_of_ntxent(signs: list[int], tau: float) -> None:
    slope, curvature = ntxent_at_rank_one(signs, tau)
    assert slope.abs().max() < 1e-9
    assert curvature.min() < -1e-3


def test_two_opposite_instances_are_at_rank_one_and_a_minimum() -> None:
    """The simplex of two points is a line."""
    slope, curvature = ntxent_at_rank_one([1, -1, 1, -1], 0.5)
    assert slope.abs().max() < 1e-9
    assert curvature.min() > -1e-9


# ---------------------------------------------------------------------------------------------------------
# gates and ties


@pytest.mark.parametrize(("name", "measure"), [("mpt", lambda c: -c), ("mat", torch.arccos)], ids=["mpt", "mat"])
def test_a_triplet_stops_exactly_at_its_margin(name: str, measure: Callable[[Tensor], Tensor]) -> None:
    x = torch.eye(4, dtype=torch.float64)
    y = unit(x + 0.1 * torch.ones(4, dtype=torch.float64))
    gap = (measure(x[0] @ y[1]) - measure(x[0] @ y[0])).item()
    below, above = (hs.create_objective(name, margin=gap + step) for step in (-1e-9, 1e-9))
    assert below(x, y).item() == 0
    assert above(x, y).item() == pytest.approx(1e-9, rel=1e-3)
    for slope in gradients(below, x, y):
        assert (slope == 0).all()
    for slope in gradients(above, x, y):
        assert (slope.abs().amax(dim=1) > 1e-2).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_duplicates_and_ties_leave_value_and_gradient_finite(name: str, params: Params, dtype: torch.dtype) -> None:
    z1, z2 = views(6, 4, dtype=dtype)
    tied = z2.clone()
    tied[3] = tied[2]  # two equally hard negatives for everybody else
    for one, two in ((z1, tied), (tied, tied), (z1[[0, 0, 1, 1, 2, 2]], z2[[0, 0, 1, 1, 2, 2]])):
        a, b = one.clone().requires_grad_(), two.clone().requires_grad_()
        value = hs.create_objective(name, **params)(a, b, some_labels(6))
        assert value.isfinite()
        for slope in torch.autograd.grad(value, [a, b], allow_unused=True):
            assert slope is None or slope.isfinite().all()


@pytest.mark.parametrize("name", ["mpt", "met", "mat"])
def test_of_two_equally_hard_negatives_one_gets_the_whole_subgradient(name: str) -> None:
    """The tied keys are one vector, so the anchor's gradient does not depend on which of them it is."""
    z1, z2 = (unit(z) for z in views(5, 4))
    z2[3] = z2[2]
    for i in (0, 1, 4):
        leaf = z1.clone().requires_grad_()
        (found,) = torch.autograd.grad(per_anchor(name, leaf, z2, margin=3.0)[i], leaf)
        others = [j for j in range(5) if j != i]
        closed = own_gradient(name, {"margin": 3.0}, z1[i], z2[i], z2[others])
        torch.testing.assert_close(found[i], tangent(closed, z1[i]), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------
# the modified objectives as released


def released_gates(x: ref.Matrix, stage: str, margin: float) -> ref.Vector:
    """1[1 - max_{k≠i} x_i·x_k < m] within the view, 1 at the original stage."""
    closest = [max(ref.dot(a, x[k]) for k in range(len(x)) if k != i) for i, a in enumerate(x)]
    return [1.0 if stage == "original" or 1 - c < margin else 0.0 for c in closest]


def released_weights(name: str, x: ref.Matrix, y: ref.Matrix, stage: str, tau: float, nu: float) -> ref.Matrix:
    """W_ij, 0 at j = i."""
    size, early = len(x), stage in ("original", "+gd")
    pairs = [(i, j) for i in range(size) for j in range(size) if j != i]
    weights = [[0.0] * size for _ in range(size)]
    if name == "mmhs":
        for i in range(size):
            j = max((j for j in range(size) if j != i), key=lambda j, i=i: ref.dot(x[i], y[j]))
            distance = math.sqrt(2 - 2 * ref.dot(x[i], y[j]) + 1e-4)
            weights[i][j] = (nu if early else 1.0) / (size * distance)  # the code takes the mean over anchors
        return weights
    view = y if name == "mbarlow" else x
    cosines = {(i, j): ref.dot(view[i], view[j]) for i, j in pairs}
    if name == "mmhe":
        scale = 1.0 if early else 1 / tau
        total = math.fsum(math.exp(scale * cosines[i, j]) for i, j in pairs if i < j)
        for i, j in pairs:
            weights[i][j] = (nu if early else 1.0) * scale * math.exp(scale * cosines[i, j]) / total
    else:
        total = math.fsum(math.exp(cosines[pair] / tau) for pair in pairs)
        for i, j in pairs:
            weights[i][j] = 2 * nu * cosines[i, j] / size**2 if early else math.exp(cosines[i, j] / tau) / total
    return weights


def released_gradient(
    name: str, z1: ref.Rows, z2: ref.Rows, stage: str, margin: float, ratio: float, nu: float, tau: float = 0.05
) -> ref.Gradients:
    """Σ_j W_ij n_j - P_i y_i for every anchor whose gate is open, and -P_i x_i for every positive whose gate is."""
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    found = [[[0.0] * len(h[0]) for _ in h] for _ in range(2)]
    for turn, (x, y) in enumerate(((h, g), (g, h))):
        weights, keys = released_weights(name, x, y, stage, tau, nu), y if name == "mmhs" else x
        gates, others = released_gates(x, stage, margin), released_gates(y, stage, margin)
        for i in range(len(x)):
            pull = ratio * math.fsum(weights[i])
            for k in range(len(x[i])):
                push = math.fsum(weights[i][j] * keys[j][k] for j in range(len(x)))
                found[turn][i][k] += gates[i] * (push - pull * y[i][k])
                found[1 - turn][i][k] -= others[i] * pull * x[i][k]
    return ref.raw_gradients(z1, found[0]), ref.raw_gradients(z2, found[1])


MODIFIED = {"mmhe": 10.0, "mmhs": 1.0, "mbarlow": 30.0, "mvicreg": 30.0}


@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_gradient_moves_both_vectors_of_a_positive(name: str) -> None:
    z1, z2 = views(8, 5)
    gates = released_gates(ref.unit_rows(z1), "+r", 0.3) + released_gates(ref.unit_rows(z2), "+r", 0.3)
    assert 0 < sum(gates) < 16
    for margin in (0.3, 3.0):
        objective = hs.create_objective(name, variant="released", ratio=1.5, margin=margin)
        expected = released_gradient(name, z1, z2, "+r", margin, 1.5, MODIFIED[name])
        for slope, closed in zip(gradients(objective, z1, z2), expected, strict=True):
            np.testing.assert_allclose(slope.numpy(), closed, atol=1e-11)


@pytest.mark.parametrize("stage", cases.STAGES)
@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_energy_has_its_own_gate_weights_and_neighbours_at_every_stage(name: str, stage: str) -> None:
    if name == "mmhs" and stage == "+w":
        stage = "+r"  # there is no +w
    z1, z2 = views(8, 5)
    objective = hs.create_objective(name, variant="released", stage=stage, margin=0.3, weight=MODIFIED[name])
    expected = released_gradient(name, z1, z2, stage, 0.3, 0.0, MODIFIED[name])
    for slope, closed in zip(gradients(objective, z1, z2, part="energy"), expected, strict=True):
        np.testing.assert_allclose(slope.numpy(), closed, atol=1e-11)


@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_gate_stops_other_vectors_than_the_papers(name: str) -> None:
    """Within the view instead of across: some vectors are stopped by one of the two only."""
    z1, z2 = views(8, 5)
    paper, released = (
        torch.cat(gradients(hs.create_objective(name, variant=variant, margin=0.3), z1, z2)).abs().amax(dim=1) == 0
        for variant in ("paper", "released")
    )
    assert (released & ~paper).any()
    assert released.tolist() == [g == 0 for z in (z1, z2) for g in released_gates(ref.unit_rows(z), "+r", 0.3)]


@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_ratio_acts_as_about_twice_itself(name: str) -> None:
    """Ungated, the pull on x_i is r(κ_i + κ'_i), κ the total weight of the anchor in either view's turn."""

    def pulls(z1: Tensor, z2: Tensor, turns: str) -> Tensor:
        """Length of what the ratio adds to the gradient in the first view."""
        with_ratio, without = (
            gradients(hs.create_objective(name, variant="released", margin=3.0, ratio=r, views=turns), z1, z2)[0]
            for r in (1.5, 0.0)
        )
        return (with_ratio - without).norm(dim=1)

    z1, far = views(24, 8)
    for z2 in (far, z1 + 0.03 * (far - z1)):
        doubling = pulls(z1, z2, "both") / pulls(z1, z2, "anchor")  # anchor: r κ_i alone
        kappa = [
            torch.tensor([math.fsum(row) for row in released_weights(name, x, y, "+r", 0.05, 1.0)], dtype=torch.float64)
            for x, y in itertools.permutations((ref.unit_rows(z1), ref.unit_rows(z2)))
        ]
        torch.testing.assert_close(doubling, 1 + kappa[1] / kappa[0], rtol=1e-8, atol=0)
    assert doubling.median().item() == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("name", ["mmhe", "mmhs", "mbarlow", "mvicreg"])
def test_released_positives_are_those_of_the_paper_before_the_ratio_is_fixed(name: str) -> None:
    """The authors' code pulls with 2/N in all, as the paper does, until +r (mmhe: +w) makes the pull mutual."""
    pulls = []
    for variant in ("paper", "released"):
        z1, z2 = (z.requires_grad_() for z in views(8, 5))
        parts = hs.create_objective(name, stage="original", variant=variant).terms(z1, z2)
        pulls.append(torch.autograd.grad(parts["alignment"], [z1, z2]))
    for paper, released in zip(*pulls, strict=True):
        torch.testing.assert_close(released, paper, rtol=1e-10, atol=1e-12)
