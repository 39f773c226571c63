"""Rows of a study: a grid's points, what the monitor measured, optima at the end of their range."""

import pytest

from hypersphere.studies.compare.results import _at_bound, collect
from tests.studies.compare.plans import attempt, comparison, plan


@pytest.mark.parametrize("value", [0.0205, 0.97])
def test_an_optimum_at_the_end_of_its_range_is_flagged(value):
    result = comparison()
    plan = result.plan
    (sentence,) = _at_bound(plan, "dhel", {"objective.temperature": value}, plan.study.base({"name": "dhel"})).values()
    assert f"{value:.4g}" in sentence and ("lower" in sentence) == (value < 0.1)


def test_in_a_grid_an_objective_is_compared_with_the_reference_at_the_same_point():
    made = plan(grid={"batch.size": [32, 64]}, seeds=3)
    scores = {("ntxent", 32): 60.0, ("ntxent", 64): 70.0, ("dhel", 32): 61.0, ("dhel", 64): 75.0}
    attempts = {cell.id: attempt(0.0, scores[cell.objective, cell.recipe.batch.size] + cell.seed) for cell in made.grid}
    attempts |= {cell.id: attempt(0.0, 50.0) for cell in made.untrained}
    result = collect(made, attempts)
    assert {(each.name, each.reference, each.mean) for each in result.differences} == {
        ("dhel, batch.size 32", "ntxent, batch.size 32", 1.0), ("dhel, batch.size 64", "ntxent, batch.size 64", 5.0)
    }  # fmt: skip
    assert result.ranking[0].name == "dhel, batch.size 64" and result.complete and not result.pairs


def test_what_was_measured_is_a_mean_over_seeds_at_the_start_or_at_the_end():
    made = plan(trials=0)
    lines = {43: [{"gap": 1.0}, {"gap": 5.0}, {"ratio": 1.0}], 44: [{"gap": 3.0}, {"gap": 9.0}]}
    cells = [cell for objective in made.study.objectives for cell in made.test(objective, made.given(objective))]
    attempts = {
        cell.id: attempt(0.0, 60.0, measured=lines[cell.seed], memory=cell.seed, seconds=cell.seed) for cell in cells
    }
    row = collect(made, attempts).by_name["dhel"]
    assert (row.measured("gap"), row.measured("gap", last=False), row.measured("rank")) == (7.0, 2.0, None)
    assert (row.memory, row.seconds) == (44, 43.5)  # the peak, and the mean
