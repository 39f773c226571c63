"""The verdict in words, from scores that were made up."""

import json

import pytest

from hypersphere.documents import json_safe
from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.compare.choice import choose
from hypersphere.studies.compare.files import as_latex, as_markdown, as_tree
from hypersphere.studies.compare.page import comparison_page
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import collect
from hypersphere.studies.compare.study import read_study
from hypersphere.studies.compare.words import floor_in_words, verdict

OFFSETS = [0.3, -0.8, 0.5, -0.1, 0.9, -0.6, 0.2, -0.4, 0.7, 0.1]


def attempt(validation, test=None, **rest):
    scores = {} if test is None else {"knn": test}
    result = {"scores": scores, "history": {"0": {"knn": 50.0}, "6": {"knn": validation}}, "best_step": 6, "steps": 6,
              "seconds": 2.0, "memory": 400, "verdicts": [], "measured": [], **rest}  # fmt: skip
    return Attempt(0, "done", "", result)


def comparison(seeds=8, leads=(0.0, 5.0, 0.05), fail=()):
    """ntxent, dhel and vicreg ahead of ntxent by so much, with noise that differs between them."""
    plan = Plan(read_study("digits", objectives="ntxent,dhel,vicreg", trials=2, seeds=seeds))
    attempts = {cell.id: attempt(50.0, 50.0 + OFFSETS[k % 10]) for k, cell in enumerate(plan.untrained)}
    attempts |= {cell.id: attempt(70.0 + cell.trial) for cell in plan.tuning}
    for place, (objective, lead) in enumerate(zip(plan.study.objectives, leads, strict=True)):
        chosen = next(cell for cell in plan.tuning if cell.objective == objective["name"] and cell.trial == 1)
        for k, cell in enumerate(plan.test(objective, chosen)):
            noise = OFFSETS[(k * (place + 1) + place) % 10]
            attempts[cell.id] = attempt(70.0, 70.0 + lead + noise)
    for cell in plan.tuning:
        if cell.objective in fail:
            attempts[cell.id] = Attempt(0, "failed", "the <loss> is not finite", None)
    return collect(plan, attempts)


def test_a_clear_difference_is_said_with_its_size_and_p():
    said = " ".join(verdict(comparison()))
    ahead = sum(5 + OFFSETS[(2 * k + 1) % 10] - OFFSETS[k % 10] for k in range(8)) / 8
    assert "dhel has the highest mean: 74.59" in said
    assert (
        f"dhel beats ntxent by {ahead:.2f}" in said and "(p = 0.0156)" in said
    )  # the floor of 8 seeds, for two comparisons


def test_a_tie_is_said_with_the_seeds_that_could_decide():
    said = " ".join(verdict(comparison()))
    assert "vicreg and ntxent cannot be told apart with 8 seeds" in said


def test_five_seeds_decide_nothing_and_it_is_said_why():
    result = comparison(seeds=5)
    assert not any(each.decided for each in result.differences)
    said = " ".join(verdict(result))
    assert "With 5 seeds p cannot be below 0.0625" in said and "7 seeds could" in said
    assert "dhel and ntxent cannot be told apart with 5 seeds, 7 could" in said
    assert floor_in_words(7, 2) == ""


def test_the_best_trial_is_chosen_and_its_settings_are_told():
    row = comparison().by_name["dhel"]
    assert row.tuned == 71.0 and set(row.settings) == {"optimizer.lr", "objective.temperature"}
    assert row.expected_best == [70.5, 71.0]


def test_an_objective_that_failed_is_a_row_with_its_reason():
    result = comparison(fail=("vicreg",))
    assert result.complete and result.ranking[-1].name == "vicreg"
    page = comparison_page(result)
    assert "the &lt;loss&gt; is not finite" in page and "<loss>" not in page
    assert "no score" in as_markdown(result)


def test_the_tables_are_whole_and_the_tree_is_json():
    result = comparison()
    assert as_latex(result).count(r"\\") == 1 + 4
    tree = json.loads(json.dumps(json_safe(as_tree(result)), allow_nan=False))
    assert [row["name"] for row in tree["rows"]] == [row.name for row in result.ranking]
    assert tree["differences"][0]["improvement"] == 1.0 and tree["groups"][0] == ["dhel"]


def test_a_study_that_is_not_over_says_so():
    plan = Plan(read_study("digits", objectives="ntxent,dhel", trials=2, seeds=2))
    result = collect(plan, {})
    assert not result.complete and "not over" in verdict(result)[0]
    assert "No objective has a test score yet" in comparison_page(result)


@pytest.mark.parametrize("value", [0.0205, 0.97])
def test_an_optimum_at_the_end_of_its_range_is_flagged(value):
    result = comparison()
    plan = result.plan
    from hypersphere.studies.compare.results import _at_bound

    (sentence,) = _at_bound(plan, "dhel", {"objective.temperature": value}, plan.study.base({"name": "dhel"})).values()
    assert f"{value:.4g}" in sentence and ("lower" in sentence) == (value < 0.1)


def test_one_seed_has_no_interval_and_decides_nothing():
    said = " ".join(verdict(comparison(seeds=1)))
    assert "nan" not in said and "±" not in said
    assert "dhel and ntxent cannot be told apart with 1 seed." in said


def test_of_equal_trials_the_earliest_is_chosen():
    plan = Plan(read_study("digits", objectives="ntxent", trials=3, seeds=1))
    tuned = {cell.id: attempt(71.0 if cell.trial else 60.0) for cell in plan.tuning}
    assert [chosen.trial for _, chosen in choose(plan, tuned)] == [1]
