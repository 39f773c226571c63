"""Figures of sentence encoders: winners, means over runs, and what was not measured."""

from __future__ import annotations

from math import nan

from hypersphere.figures.sentences import (
    ChoicePanel,
    MarginPoint,
    ScoreRow,
    Spot,
    draw_checkpoints,
    draw_choices,
    draw_margins,
    draw_scores,
)


def words(axis):
    return [text.get_text() for text in axis.texts]


def test_rows_keep_their_place_in_both_panels() -> None:
    rows = [ScoreRow("L_cl", [50.0, 52.0], (49.0, 53.0)), ScoreRow("L_met", [55.0], (nan, nan))]
    left, right = draw_scores(rows, rows[1:], "STS").axes
    bar, seeds, mean = left.lines[:3]
    assert list(bar.get_xdata()) == [49, 53] and list(seeds.get_xdata()) == [50, 52] and list(mean.get_xdata()) == [51]
    assert set(bar.get_ydata()) == {1} and set(right.lines[0].get_ydata()) == {0}  # the first is on top
    assert len(left.lines) == 3 + 2  # one run has no interval
    assert words(draw_scores(rows, [], "STS").axes[1]) == ["not measured"]


def test_the_winner_is_ringed_and_the_paper_s_best_is_dashed() -> None:
    panel = ChoicePanel("MPT: margin", [(0.2, 50.0, 1e-5), (0.3, 60.0, 3e-5)], (0.2, 0.35), 0.23)
    figure = draw_choices([panel], noise=2.0)
    axis = figure.axes[0]
    ring = axis.collections[-1]
    assert ring.get_offsets().tolist() == [[0.3, 60.0]] and ring.get_facecolors().size == 0
    assert axis.lines[0].get_xdata()[0] == 0.23 and axis.lines[0].get_linestyle() == "--"
    assert "not told apart from the winner" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert words(draw_choices([ChoicePanel("", [], (0, 1), None)], None).axes[0]) == ["not measured"]


def test_losses_are_means_over_runs_in_a_band() -> None:
    curve = [(0, [3.0, 5.0]), (10, [1.0, 2.0])]
    figure = draw_checkpoints([Spot("L_cl", 0.2, -2.0, 60.0)], {"b: L_cl": {"infonce": {"training": curve}}})
    scatter, infonce, alignment, _, _ = (*figure.axes[:1], *figure.axes[2:5], figure.axes[1])
    assert scatter.collections[0].get_offsets().tolist() == [[-2.0, 0.2]]  # uniformity to the right
    assert list(infonce.lines[0].get_ydata()) == [4, 1.5]
    assert {tuple(each) for each in infonce.collections[0].get_paths()[0].vertices} >= {(0, 3), (0, 5), (10, 1)}
    assert words(alignment) == ["not measured"]
    assert [words(axis) for axis in draw_checkpoints([], {}).axes] == [["not measured"]] * 2


def test_margins_are_joined_in_their_order_at_the_means_of_their_runs() -> None:
    points = [MarginPoint(0.1, [0.2, 0.4], [50.0, 54.0]), MarginPoint(0.4, [0.8], [60.0])]
    above, below, gaps = draw_margins(points, [], {"L_cl": [(0, [0.1]), (9, [0.5])]}, {}, "STS").axes[:3]
    joined = above.lines[0]
    assert [round(x, 6) for x in joined.get_xdata()] == [0.3, 0.8] and list(joined.get_ydata()) == [52, 60]
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["0.1", "0.4"]
    assert words(below) == ["not measured"] and list(gaps.lines[0].get_ydata()) == [0.1, 0.5]
