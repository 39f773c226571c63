"""Barlow Twins and VICReg: exact gradients and the smallest value."""

from __future__ import annotations

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import cross_polytope, tangent, unit
from hypersphere.testing.example import views
from tests.theory import (
    barlow_gradient,
    gradients,
    without_diagonal,
)


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


def test_the_weight_of_unit_barlow_is_that_of_the_other_view_alone() -> None:
    """h_i·h'_j in its place, as printed in Li et al. 2024, Eq. 10, is not the gradient."""
    h, g = (unit(z) for z in views(6, 4))
    grad, _ = gradients(hs.create_objective("barlow", normalization="unit", weight=30.0), h, g)
    assert (grad - tangent(barlow_gradient(h, g, h @ g.T), h)).abs().max() > 1e-2


def test_the_covariance_part_of_vicreg_has_the_exact_off_diagonal_gradient() -> None:
    """(4ν/(D(N-1))) offdiag(Cov) (z_i - mean), on raw features."""
    z1, z2 = views(6, 4)
    objective = hs.create_objective("vicreg", invariance=0.0, variance=0.0, covariance=0.7)
    for z, grad in zip((z1, z2), gradients(objective, z1, z2), strict=True):
        centred = z - z.mean(dim=0)
        covariance = centred.T @ centred / 5
        expected = 4 * 0.7 / (4 * 5) * centred @ without_diagonal(covariance)
        torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-13)
