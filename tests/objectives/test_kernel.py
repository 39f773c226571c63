"""KCL: its gradient by kernel, its energy, and its independence of the batch size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import cross_polytope, tangent, uniform_points, unit
from hypersphere.objectives import Objective
from hypersphere.testing.example import views
from tests.theory import (
    KERNEL_SLOPES,
    Params,
    gradients,
    without_diagonal,
)


@pytest.mark.parametrize(("params", "align", "repel"), KERNEL_SLOPES, ids=[p["kernel"] for p, *_ in KERNEL_SLOPES])
def test_the_gradient_of_kcl_follows_the_slope_of_its_kernel(
    params: Params, align: Callable[[Tensor], Tensor], repel: Callable[[Tensor], Tensor]
) -> None:
    """(2/N) K_A'(q_ii) h'_i - (4γ/(N(N-1))) Σ_{j≠i} K_U'(q_ij) h_j."""
    size, gamma = 6, 3.0
    h, g = (unit(z) for z in views(size, 4))
    grad, other = gradients(hs.create_objective("kcl", gamma=gamma, **params), h, g)
    pull = 2 / size * align(2 - 2 * (h * g).sum(dim=1, keepdim=True))
    push = -4 * gamma / (size * (size - 1)) * without_diagonal(repel(without_diagonal(2 - 2 * h @ h.T, 1.0)))
    torch.testing.assert_close(grad, tangent(pull * g + push @ h, h), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(other, tangent(pull * h, g), rtol=1e-9, atol=1e-12)


def test_gaussian_energy_of_the_cross_polytope_and_of_the_uniform_measure() -> None:
    def energy(points: torch.Tensor) -> float:
        return hs.create_objective("kcl", gamma=1.0).terms(points, points)["energy"].item()

    dim, t = 3, 2.0
    best = (math.exp(-4 * t) + (2 * dim - 2) * math.exp(-2 * t)) / (2 * dim - 1)
    assert energy(cross_polytope(dim)) == pytest.approx(best, abs=1e-12)
    assert all(energy(uniform_points(2 * dim, dim, seed)) > best for seed in range(20))
    spread = sum(energy(uniform_points(800, 3, seed)) for seed in range(8)) / 8
    assert spread == pytest.approx((1 - math.exp(-4 * t)) / (4 * t), abs=2e-3)


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


def mean_over_subsets(objective: Objective, z1: Tensor, z2: Tensor, size: int) -> float:
    subsets = [list(s) for s in itertools.combinations(range(len(z1)), size)]
    return sum(objective(z1[s], z2[s]).item() for s in subsets) / len(subsets)


@pytest.mark.parametrize("both", [False, True], ids=["anchor", "both"])
@pytest.mark.parametrize("params", [p for p, *_ in KERNEL_SLOPES], ids=[p["kernel"] for p, *_ in KERNEL_SLOPES])
def test_kcl_is_the_mean_over_its_subsets_whatever_the_kernel(params: Params, both: bool) -> None:
    objective = hs.create_objective("kcl", views="both" if both else "anchor", **params)
    z1, z2 = views(6, 4)
    for size in (2, 4, 5):
        mean = mean_over_subsets(objective, z1, z2, size)
        assert mean == pytest.approx(objective(z1, z2).item(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["infonce", "dhel"])
@pytest.mark.parametrize("size", [2, 4])
def test_infonce_and_dhel_depend_on_the_batch_size_beyond_a_constant(name: str, size: int) -> None:
    objective = hs.create_objective(name)
    z1, z2 = views(6, 4)
    small = mean_over_subsets(objective, z1, z2, size) - math.log(size - 1)
    assert abs(small - (objective(z1, z2).item() - math.log(5))) > 1e-2
