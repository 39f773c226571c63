"""Choosing by the validation score, at once or stage by stage."""

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.compare.choice import choose, tuned
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import collect
from hypersphere.studies.compare.study import read_study
from tests.studies.compare.plans import STAGES, attempt, comparison, ended, plan


def test_without_trials_every_objective_runs_as_it_is_given():
    made = plan(objectives=["ntxent", {"name": "mpt", "margin": 0.3}], trials=0)
    assert not made.tuning and made.count() == 2 + 4
    chosen = {cell.objective: cell for _, cell in choose(made, {})}
    tested = made.test({"name": "mpt", "margin": 0.3}, chosen["mpt margin=0.3"])
    assert [cell.recipe.objective for cell in tested] == 2 * [{"name": "mpt", "margin": 0.3}]


def test_a_later_stage_starts_from_the_best_setting_of_the_one_before():
    made = plan(stages=STAGES)
    first = made.stage({"name": "ntxent"}, 0, {})
    assert [cell.settings["batch.size"] for cell in first] == [64, 64, 128, 128]
    assert all(cell.recipe.objective["temperature"] == 0.3 for cell in first) and made.tuning[:4] == first
    attempts = ended(made.tuning, lambda cell: cell.recipe.batch.size + cell.recipe.optimizer.lr)
    cells = tuned(made, {"name": "ntxent"}, attempts)
    assert [cell.trial for cell in cells] == list(range(7)) and not choose(made, attempts)
    assert all((cell.recipe.batch.size, cell.recipe.optimizer.lr) == (128, 0.01) for cell in cells[4:])
    assert cells[5].id == first[3].id  # the same setting is run once
    attempts |= ended(cells[4:], lambda cell: 200 - cell.recipe.objective["temperature"])
    ((objective, best),) = choose(made, attempts)
    assert (objective["name"], best.settings["objective.temperature"], best.trial) == ("ntxent", 0.1, 4)


def test_the_best_of_an_earlier_stage_may_stay_the_best():
    made = plan(
        stages=[{"optimizer.lr": [0.001, 0.002, 0.004]}, {"objective.temperature": [0.1, 0.2]}], objectives="ntxent"
    )
    attempts = ended(made.tuning, lambda cell: 50 - cell.trial)
    attempts |= ended(tuned(made, {"name": "ntxent"}, attempts)[3:], lambda cell: 10.0)
    (row,) = collect(made, attempts).contestants
    assert row.settings == {"optimizer.lr": 0.001} and len(row.tuning) == 5
    assert list(row.at_bound) == ["optimizer.lr"]  # the temperature is the default, none of the values


def test_a_stage_without_a_score_ends_the_search_of_its_objective():
    made = plan(stages=STAGES, objectives="ntxent")
    failed = {cell.id: Attempt(-1, "failed", "diverged", None) for cell in made.tuning}
    failed |= ended(made.untrained, lambda cell: 1.0)
    assert len(tuned(made, {"name": "ntxent"}, failed)) == 4 and not choose(made, failed)
    assert collect(made, failed).complete


def test_of_equal_trials_the_earliest_is_chosen():
    plan = Plan(read_study("digits", objectives="ntxent", trials=3, seeds=1))
    tuned = {cell.id: attempt(71.0 if cell.trial else 60.0) for cell in plan.tuning}
    assert [chosen.trial for _, chosen in choose(plan, tuned)] == [1]


def test_the_best_trial_is_chosen_and_its_settings_are_told():
    row = comparison().by_name["dhel"]
    assert row.tuned == 71.0 and set(row.settings) == {"optimizer.lr", "objective.temperature"}
    assert row.expected_best == [70.5, 71.0]
