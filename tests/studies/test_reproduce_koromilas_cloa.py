"""The items of Koromilas et al. and of CLOA: closed forms against direct evaluation, and the quick versions."""

from __future__ import annotations

import math

import pytest
import torch

from hypersphere.geometry import cross_polytope, simplex, uniform_points
from hypersphere.objectives import create_objective, list_objectives
from hypersphere.studies.reproduce.cloa2024.curvature import PATTERNS, Chart, examine, line, ntxent_curvatures, subjects
from hypersphere.studies.reproduce.cloa2024.table1 import table1
from hypersphere.studies.reproduce.cloa2024.taxonomy import PLACED, PUBLISHED
from hypersphere.studies.reproduce.cloa2024.theorem31 import theorem31
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024 import minimisers
from hypersphere.studies.reproduce.koromilas2024.batch_independence import batch_independence
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


def test_kcl_forgets_the_batch_size_and_the_softmax_losses_do_not() -> None:
    found = batch_independence(quick=True)
    assert found.verdict == "agrees"
    for row in found.data["batches"]:
        if row["batches"] == "all" and row["M"] == 3:
            assert (abs(row["minus_log"]) < 1e-12) == row["objective"].startswith("KCL"), row["objective"]


@pytest.mark.parametrize(("N", "temperature"), [(2, 0.5), (4, 0.5), (5, 0.1)])
def test_ntxent_has_the_closed_form_curvatures_where_all_are_equal(N: int, temperature: float) -> None:
    errors, forms = ntxent_curvatures(N, temperature)
    assert max(errors.values()) < 1e-10 / temperature
    if (N, temperature) == (4, 0.5):
        assert forms["together"] == pytest.approx(-4.5714, abs=1e-4)
        assert forms["apart"] == pytest.approx(3.4286, abs=1e-4)


def test_gradient_differences_are_the_hessian_of_a_smooth_loss() -> None:
    chart, (subject,) = Chart(line("++-", "++-")), subjects(["ntxent"])
    assert torch.allclose(chart.field_jacobian(subject.loss, 1e-5), chart.hessian(subject.loss), atol=1e-8)


def test_paired_directions_keep_the_views_together() -> None:
    z = line("++-", "+-+")
    chart = Chart(z)
    for direction in chart.paired(3, torch.Generator().manual_seed(0)):
        rows = chart.rows(0.1 * direction)
        cosines = (rows[:3] * rows[3:]).sum(dim=1)
        assert torch.allclose(cosines, (z[:3] * z[3:]).sum(dim=1))
        assert not torch.allclose(rows, z)


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if not name.startswith("two")])
def test_ntxent_is_stationary_on_a_line_and_never_a_minimum(pattern: str) -> None:
    row = examine(subjects(["ntxent"])[0], pattern, draws=5)
    assert row["projected_gradient"] < 1e-12
    assert row["smallest_curvature"] < -0.1
    assert row["lowest_change_nearby"] < 0


def test_two_opposed_instances_are_a_minimum_of_ntxent() -> None:
    assert examine(subjects(["ntxent"])[0], "two instances,\nopposed", draws=20)["found"] == "local minimum"


def test_quick_theorem_upholds_the_zero_gradient_and_not_the_minimum() -> None:
    found = theorem31(quick=True)
    assert found.verdict == "partly"
    assert list(found.clauses.values()) == [True, False, True, False]
    kinds = {(row["objective"], row["configuration"]): row["found"] for row in found.data["curvature"]}
    assert kinds["infonce", "all equal"] == kinds["ntxent", "all equal"] == "saddle"
    assert kinds["met", "all equal"] == "kink, descends"
    assert kinds["mvicreg", "all equal"] == "gradient field unstable"
    assert kinds["cloa", "all equal"] == "not stationary"


def test_taxonomy_places_every_registered_objective() -> None:
    found = table1()
    assert set(PLACED) == set(list_objectives())
    assert found.verdict == "undecided"  # copied, not measured
    assert {place.published for place in PLACED.values()} - {""} <= {row.method for row in PUBLISHED}
    assert [row.method for row in PUBLISHED if row.question] == ["PCL"]
