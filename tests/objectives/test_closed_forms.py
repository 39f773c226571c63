"""Gradients beside their closed forms, and losses rebuilt from their parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import tangent, unit
from hypersphere.testing.example import views
from tests import cases
from tests.theory import KERNEL_SLOPES, Params, gradients, own_gradient, per_anchor, row_softmax, without_diagonal

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
