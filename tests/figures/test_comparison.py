"""Figures of a comparison: the best on top, means in their bands, names at the middle of their runs."""

from __future__ import annotations

from math import nan

import pytest

from hypersphere.figures.comparison import draw_curves, draw_map, draw_ranking


def test_the_best_is_on_top_with_its_mean_and_interval() -> None:
    (axis,) = draw_ranking({"met": [70.0, 72.0], "dcl": [60.0]}, {"met": (69, 73), "dcl": (nan, nan)}, "", "").axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["dcl", "met"]  # from below
    _, only, bar, runs, mean = axis.lines  # one run has no interval
    assert list(only.get_xdata()) == [60] and list(bar.get_xdata()) == [69, 73]
    assert list(runs.get_xdata()) == [70, 72] and list(mean.get_xdata()) == [71] and list(mean.get_ydata()) == [1]


def test_a_curve_is_the_mean_of_its_seeds_in_a_band_from_the_lowest_to_the_highest() -> None:
    (axis,) = draw_curves({"met": ([1, 10], [[2.0, 5.0], [4.0, 9.0]]), "one": ([1, 10], [[1.0, 2.0]])}, "", "", "").axes
    assert list(axis.lines[0].get_ydata()) == [3, 7]
    (band,) = axis.collections  # one seed has none
    heights = band.get_paths()[0].vertices
    assert {tuple(each) for each in heights} >= {(1, 2), (1, 4), (10, 5), (10, 9)}
    assert draw_curves({"met": ([1, 10], [[2.0, 5.0]])}, "", "", "", log=True).axes[0].get_xscale() == "log"


def test_a_name_stands_once_in_the_middle_of_its_runs() -> None:
    figure = draw_map([("met", 0.2, -2.0, 70.0), ("dcl", 0.9, -3.0, 60.0), ("met", 0.4, -1.0, 71.0)], "", "")
    names = {text.get_text(): text.xy for text in figure.axes[0].texts}
    assert names["met"] == pytest.approx((-1.5, 0.3)) and names["dcl"] == (-3.0, 0.9) and len(names) == 2
