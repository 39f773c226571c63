"""Minimisation, batches and tables of cells: floors, error bars, legends."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from hypersphere.figures.configurations import (
    BatchCurve,
    Cell,
    Method,
    Reach,
    draw_batch_curves,
    draw_cells,
    draw_placement,
    draw_reach,
    draw_taxonomy,
)


def test_a_gap_of_nothing_is_drawn_at_the_floor_and_two_free_views_are_open() -> None:
    reached = [Reach("KCL", "simplex", "aligned", 0.0), Reach("KCL", "simplex", "two free", -1e-3)]
    left, right = draw_reach(reached, [("KCL", 16, -0.1), ("KCL", 32, 0.05)]).axes
    aligned, free = left.lines[:2]
    assert list(aligned.get_ydata()) == [1e-15] and list(free.get_ydata()) == [1e-3]
    assert free.get_markerfacecolor() == "white" != aligned.get_markerfacecolor()
    assert list(right.lines[0].get_ydata()) == [0.1, 0.05] and list(right.get_xticks()) == [16, 32]


def test_only_sampled_batches_have_error_bars() -> None:
    points = [(2, 0.5, 0.1, 0.01), (3, 0.4, 0.05, 0.01)]
    figure = draw_batch_curves([BatchCurve("KCL", False, points), BatchCurve("KCL", True, points)], (8, 512))
    exact, sampled, *below = figure.axes
    assert not exact.containers[0].has_yerr and sampled.containers[0].has_yerr
    heights = [list(axis.containers[0].lines[0].get_ydata()) for axis in (exact, sampled, *below)]
    assert heights == [[0.5, 0.4], [0.5, 0.4], [0.1, 0.05], [0.1, 0.05]]  # with and without log(M-1)


def test_words_are_light_on_dark_cells_and_the_legend_has_the_kinds_that_occur() -> None:
    kinds = {"saddle": "#12406a", "flat": "#eef2f5", "minimum": "#c8501e"}
    cells = {("a", "x"): Cell("saddle", "-1"), ("b", "x"): Cell("flat", "0")}
    figure = draw_cells("title", ["a", "b"], ["x", "y"], cells, kinds)
    axis = figure.axes[0]
    assert [(text.get_text(), to_hex(text.get_color())) for text in axis.texts] == [("-1", "#ffffff"), ("0", "#22303c")]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["saddle", "flat"]
    assert axis.get_ylim() == (2, 0)  # the first row is on top


def test_a_method_without_a_number_has_words_and_a_doubtful_one_is_open() -> None:
    methods = [Method("SimCLR", "plain", ("cosine", "softmax", "cross-entropy"), 69.3, "ntxent"),
               Method("PCL", "plain", ("cosine", "softmax", "cross-entropy"), 67.6, "–", in_question=True),
               Method("GCL", "other", ("arccosine", "softmax", "cross-entropy"), None, "–")]  # fmt: skip
    words, axis = draw_taxonomy(methods).axes
    sure, doubtful = (line for line in axis.lines if line.get_marker() == "o")
    assert (sure.get_xdata()[0], doubtful.get_xdata()[0]) == (69.3, 67.6)
    assert doubtful.get_markerfacecolor() == "white" != sure.get_markerfacecolor()
    assert [text.get_text() for text in axis.texts] == ["69.3", "67.6  source in question", "no number given"]
    assert len([line for line in words.lines if line.get_ydata()[0] == 1.5]) == 1  # between the groups


def test_a_group_stands_above_its_rows() -> None:
    (axis,) = draw_placement([("one softmax", [("infonce", "cosine", "softmax", "ce", "SimCLR")]), ("none", [])]).axes
    heights = {text.get_text(): text.get_position()[1] for text in axis.texts}
    assert heights["objective"] < heights["one softmax"] < heights["infonce"] < heights["none"]
    assert heights["infonce"] == pytest.approx(1)
