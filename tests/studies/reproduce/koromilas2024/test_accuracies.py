"""Accuracies over several settings, seed by seed."""

from __future__ import annotations

import pytest

from hypersphere.studies.reproduce.koromilas2024.accuracies import (
    CHANCE,
    accuracies,
    best_of,
    by_chance,
    contrasted,
    described,
    differences,
    spread_of_means,
    trained_well,
    worst_of,
    worst_over,
)
from tests.studies.reproduce.fabricated import row


def test_a_failed_run_counts_as_chance_and_one_without_the_score_not_at_all() -> None:
    runs = row({"scores": {"linear_1": 40.0}}, {"scores": {"knn": 30.0}}, "the loss is not finite")
    assert accuracies(runs, "linear_1") == {43: 40.0, 45: CHANCE}


def test_the_best_and_the_worst_setting_are_those_of_the_means() -> None:
    points = {16: {1: 40.0, 2: 44.0}, 64: {1: 50.0, 2: 30.0}, 256: {}}
    assert (best_of(points), worst_of(points)) == (16, 64) and best_of({16: {}}) is None
    assert worst_over([points[16], points[64]]) == {1: 40.0, 2: 30.0}
    assert spread_of_means([points[16], points[64]]) == 2.0  # of single runs it is 10 and 14
    assert spread_of_means([points[16], points[256]]) is None


def test_one_seed_has_no_interval_in_a_table() -> None:
    assert described({1: 40.0}) == {"mean": 40.0, "low": None, "high": None, "seeds": 1}
    assert contrasted({1: 40.0}, {1: 38.0}) == {"difference": 2.0, "low": None, "high": None, "seeds": 1}
    assert contrasted({1: 40.0}, {2: 38.0})["seeds"] == 0


def test_many_clauses_fail_by_chance_more_often_than_one() -> None:
    assert "in 22 % of such contests" in by_chance(dict.fromkeys(map(str, range(10))))  # 1 - 0.975 ** 10


def test_an_implementation_is_cleared_if_both_new_losses_learn() -> None:
    start = {1: 30.0, 2: 30.0, 3: 30.0}
    learned = {seed: 40.0 + seed / 10 for seed in start}
    assert trained_well({"dhel": learned, "kcl": learned}, start).startswith("Implementation: not suspected.")
    assert "not cleared" in trained_well({"dhel": learned, "kcl": start}, start)


def test_differences_are_of_the_new_losses_against_the_old() -> None:
    values = {"ntxent": {1: 40.0}, "dcl": {1: 41.0}, "dhel": {1: 44.0}, "kcl": {1: 43.5}}
    assert differences(values, 1) == "DHEL − SimCLR +4.0, DHEL − DCL +3.0, KCL − SimCLR +3.5, KCL − DCL +2.5"


@pytest.mark.parametrize("values", [{}, {"dhel": {1: 40.0}}])
def test_nothing_measured_is_no_reason_to_clear(values: dict[str, dict[int, float]]) -> None:
    assert "not cleared" in trained_well(values, {1: 30.0})
