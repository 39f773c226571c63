"""Curvatures where all points lie on a line."""

from __future__ import annotations

import pytest
import torch

from hypersphere.studies.reproduce.cloa2024.curvature import PATTERNS, Chart, examine, line, ntxent_curvatures, subjects


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
