"""What the papers say of the objectives, as statements that can fail."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import cross_polytope, simplex, tangent, uniform_points, unit
from hypersphere.objectives import Objective
from hypersphere.testing.example import some_labels, views
from tests import cases

PAIRWISE = cases.PAIRWISE
ROTATION_INVARIANT = [c for c in PAIRWISE if c[0] != "mbarlow" or c[1].get("stage") not in ("original", "+gd")]


def gradients(objective: Objective, *z: torch.Tensor) -> list[torch.Tensor]:
    leaves = [each.clone().requires_grad_() for each in z]
    value = objective(*leaves, some_labels(len(leaves[0])))
    grads = torch.autograd.grad(value, leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if s is None else s for leaf, s in zip(leaves, grads, strict=True)]


@pytest.mark.parametrize(("name", "params"), **cases.named(ROTATION_INVARIANT))
def test_rotation_permutation_and_scale_change_nothing(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params).double()
    z1, z2 = views(6, 4)
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    scale = torch.rand(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.5
    labels = some_labels(6)
    expected = pytest.approx(objective(z1, z2, labels).item(), rel=1e-10)
    assert objective(z1 @ rotation, z2 @ rotation, labels).item() == expected
    assert objective(z1[order], z2[order], labels[order]).item() == expected
    assert objective(z1 * scale, z2 / scale, labels).item() == expected


def test_unit_barlow_depends_on_the_axes() -> None:
    """Its gradient has the diagonal of the correlation matrix in it, so a rotation matters."""
    objective = hs.create_objective("mbarlow", stage="original")
    z1, z2 = views(6, 4)
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    assert objective(z1 @ rotation, z2 @ rotation).item() != pytest.approx(objective(z1, z2).item(), rel=1e-3)


SIMPLEX_VALUES = [
    ("infonce", {"temperature": 0.3}, lambda n, k: math.log1p((n - 1) * math.exp(-k / 0.3))),
    ("ntxent", {}, lambda n, k: math.log1p(2 * (n - 1) * math.exp(-k / 0.5))),
    ("align_uniform", {"weight": 1.0}, lambda n, k: -4 * k),
    ("kcl", {"gamma": 3.0}, lambda n, k: -1 + 3 * math.exp(-4 * k)),
    ("kcl", {"kernel": "log"}, lambda n, k: -16 * 0.5 * math.log1p(4 * k)),
    ("met", {"margin": 1.5}, lambda n, k: max(0.0, 1.5 - math.sqrt(2 * k))),
]


@pytest.mark.parametrize(("name", "params", "closed"), SIMPLEX_VALUES)
@pytest.mark.parametrize("size", [2, 4, 7])
def test_value_at_the_aligned_simplex_is_the_known_minimum(
    name: str, params: dict[str, Any], closed: Any, size: int
) -> None:
    objective = hs.create_objective(name, **params)
    best = simplex(size, 8)
    assert objective(best, best).item() == pytest.approx(closed(size, size / (size - 1)), abs=1e-6)
    for seed in range(20):
        assert objective(*views(size, 8, seed)).item() >= closed(size, size / (size - 1)) - 1e-6


def test_gaussian_energy_of_the_cross_polytope_and_of_the_uniform_measure() -> None:
    def energy(points: torch.Tensor) -> float:
        return hs.create_objective("kcl", gamma=1.0).terms(points, points)["energy"].item()

    dim, t = 3, 2.0
    best = (math.exp(-4 * t) + (2 * dim - 2) * math.exp(-2 * t)) / (2 * dim - 1)
    assert energy(cross_polytope(dim)) == pytest.approx(best, abs=1e-12)
    assert all(energy(uniform_points(2 * dim, dim, seed)) > best for seed in range(20))
    spread = sum(energy(uniform_points(800, 3, seed)) for seed in range(8)) / 8
    assert spread == pytest.approx((1 - math.exp(-4 * t)) / (4 * t), abs=2e-3)


def test_all_rows_equal_gives_the_logarithm_of_the_denominators_length() -> None:
    z = torch.ones(6, 3, dtype=torch.float64)
    assert hs.create_objective("infonce")(z, z).item() == pytest.approx(math.log(6))
    assert hs.create_objective("ntxent")(z, z).item() == pytest.approx(math.log(11))


def test_kcl_is_a_mean_over_subsets_and_infonce_is_not() -> None:
    """The mean over all size-3 subsets equals the value on the whole set: the batch size does not matter."""
    z1, z2 = views(6, 4)

    def over_subsets(objective: Objective) -> float:
        subsets = [list(s) for s in itertools.combinations(range(6), 3)]
        return sum(objective(z1[s], z2[s]).item() for s in subsets) / len(subsets)

    for params in ({}, {"kernel": "log"}):
        kcl = hs.create_objective("kcl", **params)
        assert over_subsets(kcl) == pytest.approx(kcl(z1, z2).item(), abs=1e-12)
    infonce = hs.create_objective("infonce")
    shifted = over_subsets(infonce) - math.log(2) - (infonce(z1, z2).item() - math.log(5))
    assert abs(shifted) > 1e-3


def test_kcl_energy_is_the_exponential_of_uniformity() -> None:
    z1, _ = views(7, 4)
    energy = hs.create_objective("kcl", gamma=1.0, views="both").terms(z1, z1)["energy"].item() / 2
    uniformity = hs.create_objective("align_uniform", weight=1.0)(z1, z1).item()
    assert energy == pytest.approx(math.exp(uniformity), rel=1e-12)


def test_met_stops_exactly_at_its_margin() -> None:
    """The nearest negative is at distance sqrt(2) - d of a positive at d; a margin just below that is met."""
    x = torch.eye(4, dtype=torch.float64)
    y = unit(x + 0.1 * torch.ones(4, dtype=torch.float64))
    distances = torch.cdist(x, y)
    gap = (distances[0, 1] - distances[0, 0]).item()
    for step in (1e-9, -1e-9):
        one, two = gradients(hs.create_objective("met", margin=gap + step), x, y)
        value = hs.create_objective("met", margin=gap + step)(x, y).item()
        if step > 0:
            assert value == pytest.approx(step, rel=1e-3)
            assert (one.abs().amax(dim=1) > 0.1).all()
        else:
            assert value == 0
            assert (one == 0).all()
            assert (two == 0).all()


@pytest.mark.parametrize("stage", ["+gd", "+w", "+r"])
@pytest.mark.parametrize("name", ["mmhe", "mbarlow"])
def test_a_closed_gate_stops_a_vector_completely(name: str, stage: str) -> None:
    z1, z2 = views(8, 5)
    h, g = unit(z1), unit(z2)
    s = h @ g.T
    gap = s.diagonal() - (s - 9 * torch.eye(8)).amax(dim=1)
    other = s.diagonal() - (s - 9 * torch.eye(8)).amax(dim=0)
    margin = gap.median().item() + 1e-9
    one, two = gradients(hs.create_objective(name, stage=stage, margin=margin), z1, z2)
    assert 0 < (gap >= margin).sum() < 8
    assert (one[gap >= margin] == 0).all()
    assert (one[gap < margin].abs().amax(dim=1) > 1e-9).all()
    assert (two[other >= margin] == 0).all()


def test_original_mmhe_has_the_gradient_of_the_true_loss() -> None:
    """Alignment + ν (U(h) + U(h')), U the uniformity with t = 1."""
    z1, z2 = views(6, 4)
    found = gradients(hs.create_objective("mmhe", stage="original", weight=10.0), z1, z2)
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    h, g = unit(a), unit(b)
    loss = (h - g).pow(2).sum(dim=1).mean()
    for v in (h, g):
        loss = loss + 10 * torch.pdist(v).pow(2).mul(-1).exp().mean().log()
    for one, two in zip(found, torch.autograd.grad(loss, [a, b]), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_original_mbarlow_has_the_gradient_of_the_true_loss() -> None:
    z1, z2 = views(6, 4)
    found = gradients(hs.create_objective("mbarlow", stage="original", weight=30.0), z1, z2)
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    correlation = unit(a).T @ unit(b) / 6
    diagonal = correlation.diagonal()
    loss = (diagonal - 1).pow(2).sum() + 30 * (correlation.pow(2).sum() - diagonal.pow(2).sum())
    for one, two in zip(found, torch.autograd.grad(loss, [a, b]), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


REBUILDS = [
    ("infonce", {"temperature": 0.2}, {"name": "softmax", "temperature": 0.2},
     {"name": "softmax", "temperature": 0.2, "scaled": True}, "constant"),
    ("met", {"margin": 0.9}, {"name": "euclidean", "margin": 0.9}, "euclidean", "euclidean"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "dissipation", "weight", "ratio"), REBUILDS)
def test_the_paradigm_rebuilds_the_gradient_in_both_views(
    name: str, params: dict[str, Any], dissipation: Any, weight: Any, ratio: Any
) -> None:
    z1, z2 = views(7, 4)
    expected = gradients(hs.create_objective(name, **params), z1, z2)
    rebuilt = hs.create_objective("paradigm", dissipation=dissipation, weight=weight, ratio=ratio)
    for one, two in zip(gradients(rebuilt, z1, z2), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_the_paradigm_takes_callables() -> None:
    z1, z2 = views(5, 4)
    composed = hs.create_objective(
        "paradigm",
        dissipation=lambda p, n, m: torch.ones_like(p),
        weight=lambda p, n, m: torch.ones_like(n),
        ratio="constant",
    )
    s = unit(z1) @ unit(z2).T
    expected = (s.sum() - s.diagonal().sum() - 4 * s.diagonal().sum()) / 5
    assert composed(z1, z2).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(ROTATION_INVARIANT))
def test_rank_one_is_stationary(name: str, params: dict[str, Any]) -> None:
    """All rows ±z*: any loss of cosines has no gradient there (Li & Pimentel-Alarcón 2024, Theorem 3.1)."""
    signs = torch.tensor([1, 1, -1, 1, -1, 1.0], dtype=torch.float64)[:, None]
    direction = torch.tensor([[0.3, -0.5, 0.2, 0.7]], dtype=torch.float64)
    for grad in gradients(hs.create_objective(name, **params), signs * direction, signs * direction):
        assert grad.abs().max() < 1e-9


def test_rank_one_is_a_saddle_and_not_a_minimum() -> None:
    """At the all-equal point the summed NT-Xent has the eigenvalues -4N/((2N-1)τ) and (2/τ)(2-2N/(2N-1))."""
    size, tau = 4, 0.5
    objective = hs.create_objective("ntxent", temperature=tau, reduction="sum")
    start = torch.zeros(2 * size, 3, dtype=torch.float64)
    start[:, 0] = 1

    def loss(z: torch.Tensor) -> torch.Tensor:
        return objective(z[:size], z[size:])

    hessian = torch.autograd.functional.hessian(loss, start).reshape(6 * size, 6 * size)
    values = torch.linalg.eigvalsh(hessian)
    assert values.min().item() == pytest.approx(-4 * size / ((2 * size - 1) * tau), abs=1e-9)
    assert values.max().item() == pytest.approx(2 / tau * (2 - 2 * size / (2 * size - 1)), abs=1e-9)


def test_cloa_anchors_are_orthonormal_seeded_and_still_pull_at_collapse() -> None:
    objective = hs.create_objective("cloa", base="ntxent", num_classes=3, dim=5, seed=4)
    anchors = objective.anchors.double()
    torch.testing.assert_close(anchors @ anchors.T, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-6)
    assert torch.equal(hs.create_objective("cloa", num_classes=3, dim=5, seed=4).anchors, objective.anchors)
    assert not torch.equal(hs.create_objective("cloa", num_classes=3, dim=5, seed=5).anchors, objective.anchors)
    collapsed = unit(torch.tensor([[0.3, -0.5, 0.2, 0.7, 0.1]], dtype=torch.float64)).expand(6, 5)
    labels = torch.tensor([0, 1, 2, 0, 1, -1])
    z = collapsed.clone().requires_grad_()
    objective(z, collapsed, labels).backward()
    chosen = unit(anchors)[labels.clamp_min(0)]
    expected = -tangent(chosen, collapsed) / 10  # mean over five labelled rows of two views
    expected[5] = 0
    torch.testing.assert_close(z.grad, expected, rtol=1e-6, atol=1e-9)
    assert (z.grad[:5].norm(dim=1) > 1e-3).all()


def test_cloa_takes_any_module_as_base() -> None:
    class Plain(torch.nn.Module):
        def forward(self, z1: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
            return (z1 - z2).pow(2).mean()

    z1, z2 = views(4, 5)
    objective = hs.create_objective("cloa", base=Plain(), num_classes=2, dim=5)
    assert objective(z1, z2).item() == (z1 - z2).pow(2).mean().item()


def test_supcon_without_labels_is_ntxent() -> None:
    z1, z2 = views(6, 4)
    ntxent = hs.create_objective("ntxent", temperature=0.1)(z1, z2).item()
    for form in ("out", "in"):
        assert hs.create_objective("supcon", form=form)(z1, z2).item() == pytest.approx(ntxent, rel=1e-12)


def test_duplicated_hardest_negatives_give_a_finite_subgradient() -> None:
    z1, z2 = views(5, 4)
    z2[3] = z2[2]
    one, two = gradients(hs.create_objective("met", margin=3.0), z1, z2)
    assert one.isfinite().all()
    assert two.isfinite().all()


def test_ntxent_equals_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    z1, z2 = (z.float() for z in views(16, 8))
    peer = SelfSupervisedLoss(NTXentLoss(temperature=0.3))(z1, z2).item()
    assert hs.create_objective("ntxent", temperature=0.3)(z1, z2).item() == pytest.approx(peer, rel=1e-5)


def test_supcon_equals_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.losses import SupConLoss

    z1, z2 = (z.float() for z in views(16, 8))
    labels = torch.arange(16) % 3
    peer = SupConLoss(temperature=0.2)(torch.cat([z1, z2]), torch.cat([labels, labels])).item()
    ours = hs.create_objective("supcon", temperature=0.2)(z1, z2, labels).item()
    assert ours == pytest.approx(peer, rel=1e-5)
