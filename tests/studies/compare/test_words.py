"""The verdict in words, from scores that were made up."""

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.compare.page import comparison_page
from hypersphere.studies.compare.results import collect
from hypersphere.studies.compare.study import read_study
from hypersphere.studies.compare.words import floor_in_words, verdict
from tests.studies.compare.plans import OFFSETS, comparison


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


def test_a_study_that_is_not_over_says_so():
    plan = Plan(read_study("digits", objectives="ntxent,dhel", trials=2, seeds=2))
    result = collect(plan, {})
    assert not result.complete and "not over" in verdict(result)[0]
    assert "No objective has a test score yet" in comparison_page(result)


def test_one_seed_has_no_interval_and_decides_nothing():
    said = " ".join(verdict(comparison(seeds=1)))
    assert "nan" not in said and "±" not in said
    assert "dhel and ntxent cannot be told apart with 1 seed." in said
