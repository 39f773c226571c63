"""Minimisers of the losses, and the verdict on the limit of many points."""

from __future__ import annotations

import pytest
import torch

from hypersphere.geometry import simplex, uniform_points
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024 import minimisers


def test_minimisation_finds_the_tetrahedron() -> None:
    (points,) = minimisers.minimise(create_objective("kcl"), [uniform_points(4, 3)])
    cosines = points @ points.T
    assert torch.allclose(cosines, simplex(4, 3) @ simplex(4, 3).T, atol=1e-5)


@pytest.fixture(scope="module")
def quick_minimisers() -> Finding:
    return minimisers.minimisers(quick=True)


def test_quick_minimisers_leave_the_limit_undecided(quick_minimisers: Finding) -> None:
    assert quick_minimisers.verdict == "undecided"
    assert list(quick_minimisers.clauses.values()) == [True, None]
    assert all(row["gap"] > -1e-9 for row in quick_minimisers.data["batch"])
    assert "whether that falls was not measured" in quick_minimisers.measured


@pytest.mark.parametrize(("second", "verdict"), [(0.05, "agrees"), (0.1, "partly"), (0.2, "partly")])
def test_the_limit_of_many_points_counts(second: float, verdict: str, quick_minimisers: Finding) -> None:
    """Twice the points: the gap to the uniform measure falls, stays, grows."""
    few, many = (list(map(dict, quick_minimisers.data[table])) for table in ("batch", "asymptotic"))
    rows = [{**row, "N": N, "gap": gap} for N, gap in ((16, 0.1), (32, second)) for row in many]
    assert minimisers._minimisers(few, rows, steps=20).verdict == verdict
