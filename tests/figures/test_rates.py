"""Curves over learning rates: places, runs that were lost, and pairs beside the published ones."""

from __future__ import annotations

from math import nan

import pytest

from hypersphere.figures.rates import Line, Pair, Point, draw_pairs, draw_phases, draw_rates


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_at_one_rate_stand_beside_each_other_and_lost_runs_are_open() -> None:
    curves = {"alone": [Point(0.01, 30.0, 29.0, 31.0), Point(0.1, nan)], "anchors": [Point(0.01, 20.0, lost=True)]}
    figure = draw_rates([Line("top-1, %", {"VICReg": curves}, level=10.0, about="chance")], "some runs diverged")
    (axis,) = figure.axes
    alone, interval, mark, anchors, _, lost, level = axis.lines
    assert list(alone.get_ydata()) == [30]  # nothing at the rate without a mean
    assert alone.get_xdata()[0] * anchors.get_xdata()[0] == pytest.approx(0.01**2)
    assert alone.get_xdata()[0] < 0.01 and list(interval.get_ydata()) == [29, 31]
    assert lost.get_markerfacecolor() == "white" != mark.get_markerfacecolor()
    assert set(level.get_ydata()) == {10} and legend(figure) == ["alone", "anchors", "some runs diverged"]
    assert legend(draw_rates([Line("", {"": {"alone": [Point(0.01, 30.0)]}})], "some diverged")) == ["alone"]


def test_a_phase_that_no_rate_reaches_is_left_out() -> None:
    phases = {"not learning": (1e-7, 1e-5), "mild": (1e-4, 1e-3), "collapse": (1e-2, 1.0)}
    points = [Point(1e-4, 40.0), Point(1e-3, 50.0)]
    (axis,) = draw_phases("InfoNCE", points, [(1e-4, 39.0)], {"chance": 10.0}, phases, "top-1").axes
    assert [text.get_text() for text in axis.texts] == ["mild"]
    assert axis.get_xlim() == pytest.approx((5e-5, 2e-3))


def test_the_first_pair_is_on_top_published_below_measured() -> None:
    pairs = [Pair("InfoNCE", (40.0, 39.0, 41.0), (60.0, 59.0, 61.0), (31.0, 68.0)), Pair("DCL", None, None)]
    (axis,) = draw_pairs({"10 % of the labels": pairs}, "top-1", columns=1).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["DCL", "InfoNCE"]  # from below
    marks = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axis.lines if line.get_marker() not in ("None", "")]
    (here, above), (published, below), (anchored, _), (there, _) = marks
    assert (here, published, anchored, there) == (40, 31, 60, 68) and above > 1 > below
