"""Cells of a study: untrained, tuning and test, what stays the same, points spread evenly."""

import itertools

import pytest
import torch

from hypersphere.studies.compare.cells import evenly_spread
from tests.studies.compare.plans import STAGES, plan


def test_cells_are_untrained_tuning_and_test():
    made = plan()
    assert (len(made.untrained), len(made.tuning), made.count()) == (2, 6, 2 + 6 + 4)
    assert [cell.settings for cell in made.tuning[:2]] == [{}, {}]  # the defaults first
    assert set(made.tuning[2].settings) == {"optimizer.lr", "objective.temperature"}


def test_objectives_meet_the_same_points_and_more_trials_only_add():
    few, more = plan(), plan(trials=5)
    assert [cell.id for cell in few.tuning] == [cell.id for cell in more.tuning[:6]]
    ntxent, dhel = more.tuning[4], more.tuning[5]
    assert (ntxent.objective, dhel.objective) == ("ntxent", "dhel")
    assert ntxent.settings["optimizer.lr"] == dhel.settings["optimizer.lr"]


def test_tuning_never_looks_at_the_test_set_and_never_uses_a_test_seed():
    made = plan()
    tested = made.test({"name": "dhel"}, made.tuning[3])
    assert not any(cell.recipe.evaluation.test for cell in made.tuning)
    assert all(cell.recipe.evaluation.test for cell in (*tested, *made.untrained))
    assert {cell.seed for cell in tested}.isdisjoint({cell.seed for cell in made.tuning})
    assert {cell.seed for cell in tested} == {cell.seed for cell in made.untrained}  # paired


def test_an_id_is_the_content_of_the_run():
    ids = [cell.id for cell in plan().begin]
    assert len(set(ids)) == len(ids)
    assert ids == [cell.id for cell in plan(output="elsewhere").begin]
    assert not set(ids) & {cell.id for cell in plan(words=["batch.size=128"]).begin}
    both, one = plan(), plan(objectives="dhel")
    assert [cell.id for cell in both.untrained] == [cell.id for cell in one.untrained]


def test_passes_over_the_data_and_the_untrained_encoder_go_together():
    made = plan(words=["epochs=2"])
    assert {cell.recipe.epochs for cell in made.tuning} == {2} and {cell.recipe.steps for cell in made.untrained} == {0}


def test_a_grid_crosses_its_keys_with_every_objective_and_seed():
    made = plan(grid={"optimizer.lr": [0.1, 0.01], "batch.size": [64, 128]})
    assert not made.tuning and len(made.grid) == 2 * 4 * 2
    assert {(cell.recipe.optimizer.lr, cell.recipe.batch.size) for cell in made.grid} == set(
        itertools.product((0.1, 0.01), (64, 128))
    )


def test_the_runs_of_a_search_in_stages_are_counted_in_advance():
    made = plan(stages=STAGES, objectives="ntxent,dhel,kcl")
    assert made.count() == 2 + 2 * (4 + 3) + (4 + 1) + 3 * 2  # kcl has no temperature: its second stage is one point
    again = plan(stages=STAGES)
    assert [cell.id for cell in made.stage({"name": "dhel"}, 1, {})] == [
        cell.id for cell in again.stage({"name": "dhel"}, 1, {})
    ]


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_trials_fill_the_ranges_more_evenly_than_chance(dimensions):
    points = torch.tensor([evenly_spread(k, dimensions) for k in range(1, 17)])
    assert ((points >= 0) & (points < 1)).all()
    chance = torch.rand(200, 16, dimensions, generator=torch.Generator().manual_seed(0))
    assert _largest_gap(points) < torch.stack([_largest_gap(each) for each in chance]).median()


def _largest_gap(points):
    """The largest distance on one axis between neighbouring values, the worst axis."""
    edged = torch.cat([torch.zeros(1, points.shape[1]), points, torch.ones(1, points.shape[1])])
    return edged.sort(dim=0).values.diff(dim=0).max()
