"""Losses in closed form against direct evaluation."""

from __future__ import annotations

import math

import pytest

from hypersphere.geometry import cross_polytope, simplex, uniform_points
from hypersphere.studies.reproduce.koromilas2024 import minimisers
from hypersphere.studies.reproduce.koromilas2024.losses import LOSSES, Loss


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.label)
@pytest.mark.parametrize("case", minimisers.FEW, ids=lambda case: f"{case.shape}-{case.N}")
def test_known_value_is_the_loss_at_the_known_configuration(loss: Loss, case: minimisers.Case) -> None:
    points = simplex(case.N, case.D) if case.shape == "simplex" else cross_polytope(case.D)
    # Riesz alignment keeps distances above 1e-6.
    assert float(loss.create()(points, points)) == pytest.approx(loss.at(case.cosines), abs=2e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.label)
def test_uniform_value_is_the_mean_potential_on_the_sphere(loss: Loss) -> None:
    count = 20000  # midpoints: on S² the cosine of two uniform points is uniform on [-1, 1]
    mean = math.fsum(loss.potential(-1 + (2 * k + 1) / count) for k in range(count)) / count
    assert mean == pytest.approx(loss.uniform, rel=5e-3)


def test_loss_without_its_growth_tends_to_the_uniform_value() -> None:
    points = uniform_points(800, 3, seed=1)
    for loss in LOSSES:
        if loss.label != "KCL gaussian riesz s=1":  # close pairs of random points dominate it
            measured = float(loss.create()(points, points)) - loss.offset(len(points))
            assert measured == pytest.approx(loss.limit(), abs=0.03 * loss.scale), loss.label
