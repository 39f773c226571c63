"""Accuracies against batch sizes and temperatures: places, intervals, and the order of lines."""

from __future__ import annotations

from math import nan

import pytest

from hypersphere.figures.accuracy import Curve, Interval, draw_batch_sizes, draw_dimensions, draw_grid


def test_settings_stand_at_equal_distances_and_curves_beside_each_other() -> None:
    curves = [
        Curve("batch 16", [(0.07, 40.0, 39.0, 41.0), (1.0, 44.0, nan, nan)]),
        Curve("batch 256", [(0.07, 42.0, nan, nan), (1.0, 43.0, nan, nan)]),
    ]
    figure = draw_grid({"SimCLR": ("temperature τ", curves)}, [Interval("SimCLR", [3.0, 5.0], 2.0, 6.0)])
    grid, spread = figure.axes
    assert [label.get_text() for label in grid.get_xticklabels()] == ["0.07", "1"]
    first, interval, second = grid.lines  # an interval that is not a number is not drawn
    assert list(first.get_xdata()) == pytest.approx([-0.035, 0.965]) and list(first.get_ydata()) == [40, 44]
    assert list(second.get_xdata()) == pytest.approx([0.035, 1.035])
    assert list(interval.get_ydata()) == [39, 41]
    bar, seeds, mean = spread.lines
    assert list(bar.get_xdata()) == [2, 6] and list(seeds.get_xdata()) == [3, 5] and list(mean.get_xdata()) == [4]


def test_published_panels_are_labelled_as_of_a_third_party() -> None:
    curve = Curve("DCL", [(32, 87.0, nan, nan), (64, 88.0, nan, nan)])
    figure = draw_batch_sizes({"knn": [curve]}, [], {"CIFAR-10": [curve]})
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[0] == "Here: knn" and titles[3] == "Third party: CIFAR-10"
    assert [figure.axes[k].get_xscale() for k in (0, 3)] == ["log", "log"]
    assert [axis.axison for axis in figure.axes] == [True, False, False, True]  # a panel without a line is left out


def test_the_first_line_is_on_top() -> None:
    axis = draw_dimensions({"rank": [Interval("SimCLR", [20.0], nan, nan), Interval("KCL", [], nan, nan)]}).axes[0]
    low, high = axis.get_ylim()
    assert low > high and [label.get_text() for label in axis.get_yticklabels()] == ["SimCLR", "KCL"]
    assert len(axis.lines) == 2  # a seed and its mean; nothing of KCL
