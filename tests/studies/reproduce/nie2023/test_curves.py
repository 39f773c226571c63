"""Readings of a run's curves."""

import math

import pytest

from hypersphere.studies.reproduce.nie2023.curves import (
    drops,
    find_row,
    growths,
    kept,
    points,
    rises,
    series,
    still_falling,
)
from tests.studies.reproduce.fabricated import row
from tests.studies.reproduce.nie2023.worlds import (
    PEAKED,
    contest,
    finished,
    margins,
)


def test_the_gap_is_that_of_the_weights_that_were_kept():
    held = contest("nie-margins", lambda cell: {**margins(PEAKED)(cell), "best_step": 10})
    dcl = find_row(held["nie-margins"].comparison, "dcl")
    assert all(gap == pytest.approx(0.9 * 0.4, abs=0.02) for gap in kept(dcl, "gap").values())


def test_a_row_that_a_contest_lacks_is_empty():
    held = contest("nie-margins", lambda cell: finished(cell))
    assert find_row(held["nie-margins"].comparison, "barlow").runs == []


def curve(*values, every=10):
    lines = [{"step": every * place, "infonce": value, "gap": value} for place, value in enumerate(values)]
    return {"pairs": lines, "measured": lines}


def test_a_rise_is_from_the_smallest_value_after_the_first_step():
    runs = row(curve(1.0, 3.0, 2.0, 2.5), curve(5.0, 4.0, 3.0), curve(5.0, 4.0), "diverged")
    assert rises(runs, "infonce") == {43: 0.5, 44: 0.0}  # the encoder as it was given is no minimum; one value no curve
    assert still_falling([runs], "infonce") == (1, 2)


def test_a_drop_is_from_the_encoder_as_it_was_given():
    late = {"pairs": [{"step": 10, "infonce": 5.0}, {"step": 20, "infonce": 1.0}]}
    assert drops(row(curve(3.0, 1.0, 2.0), late), "infonce") == {43: 2.0}


def test_growth_is_over_the_second_half():
    assert growths(row(curve(0.0, 4.0, 5.0, 5.5, 7.0), curve(1.0))) == {43: 2.0}  # steps 20 to 40


def test_numbers_that_are_not_finite_are_no_points():
    runs = row(curve(1.0, math.nan, 3.0))
    assert points(runs.runs[0], "gap", "measured") == [(0, 1.0), (20, 3.0)]
    assert series(row(curve(1.0, 2.0), curve(3.0)), "gap", "measured") == [(0, [1.0, 3.0]), (10, [2.0])]
