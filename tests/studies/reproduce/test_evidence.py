"""Numbers of runs by seed, and what their intervals decide."""

from __future__ import annotations

import math

import pytest

from hypersphere.studies.reproduce.evidence import (
    above,
    curve,
    difference,
    each_seed,
    history,
    holds_for_all,
    measured,
    row_of,
    score,
    sets_in_words,
)
from tests.studies.reproduce.fabricated import held, result, row


def test_a_run_that_ended_without_a_score_has_the_one_for_failures() -> None:
    runs = row({"scores": {"knn": 70.0}}, {"scores": {"knn": math.nan}}, {"scores": {}}, "the loss is not finite")
    assert score(runs, "knn") == {43: 70.0}
    assert score(runs, "knn", failed=10.0) == {43: 70.0, 44: 10.0, 45: 10.0, 46: 10.0}


def test_measurements_are_read_at_the_end_or_the_start_and_averaged_at_each_step() -> None:
    lines = [{"step": 0, "gap": 1.0}, {"step": 9, "gap": 3.0}, {"step": 20, "gap": None}]
    runs = row({"measured": lines}, {"measured": lines[:1], "training": [{"step": 9, "gap": 8.0}]}, "diverged")
    assert measured(runs, "gap") == {43: 3.0, 44: 1.0} and measured(runs, "gap", last=False) == {43: 1.0, 44: 1.0}
    assert curve(runs, "gap") == [(0, 1.0), (9, 3.0)] and curve(runs, "gap", "training") == [(9, 8.0)]


def test_a_history_is_in_the_order_of_its_steps() -> None:
    steps = {"100": {"knn": 4.0}, "20": {"knn": 2.0}, "0": {"knn": None}}
    assert history(row({"history": steps}, {"history": {"20": {"knn": 4.0}}}), "knn") == [(20, 3.0), (100, 4.0)]


def test_a_difference_is_paired_by_seed() -> None:
    delta = difference({1: 3.0, 2: 5.0, 9: 100.0}, {1: 1.0, 2: 2.0, 3: -50.0})
    assert delta is not None and (delta.count, delta.mean) == (2, 2.5)
    assert difference({1: 3.0}, {2: 3.0}) is None


def test_a_difference_by_some_points_is_decided_by_the_interval() -> None:
    first, second = {1: 3.0, 2: 3.2, 3: 3.1}, {1: 1.0, 2: 1.1, 3: 1.2}
    assert [above(first, second, by) for by in (1.0, 2.0, 3.0)] == [True, None, False]
    assert above(second, first) is False and above({1: 3.0}, {1: 1.0}) is None  # one seed decides nothing


@pytest.mark.parametrize(
    ("parts", "holds"),
    [([True, True], True), ([True, None], None), ([None, False], False), ([True, False], False), ([], None)],
)
def test_a_clause_about_several_holds_if_each_part_does(parts: list[bool | None], holds: bool | None) -> None:
    assert holds_for_all(parts) is holds


def test_a_row_is_found_at_its_point_of_the_grid() -> None:
    comparison = held("koromilas-batch", lambda cell: result(40.0)).comparison
    size = comparison.plan.study.grid["batch.size"][1]
    found = row_of(comparison, comparison.plan.study.labels[0], batch__size=size)
    assert found.point == {"batch.size": size} and found.objective == comparison.plan.study.labels[0]
    with pytest.raises(KeyError, match=r"no row met \{'batch.size': 3\}"):
        row_of(comparison, "met", batch__size=3)


def test_sets_that_were_not_evaluated_are_missing_from_the_words() -> None:
    rows = [row({"scores": {"STS12": 60.0}}), row({"scores": {"STS13": 60.0}})]
    assert sets_in_words(rows, ["STS12", "STS13"], "STS") == "the seven STS sets"
    assert sets_in_words(rows, ["STS12", "SICK-R"], "STS") == "1 of the seven STS sets (STS12)"


def test_only_finished_runs_have_a_number_of_their_own() -> None:
    assert each_seed(row({"steps": 6}, {"steps": 0}, "diverged"), lambda run: run.result["steps"] or None) == {43: 6}
