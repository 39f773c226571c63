"""Losses before and after a modification: means, intervals, and the best of many trials."""

from __future__ import annotations

from math import nan

import pytest

from hypersphere.figures.stages import (
    MOST_TRIALS,
    Bar,
    Changes,
    Gains,
    Trials,
    draw_bars,
    draw_changes,
    draw_gains,
    draw_trials,
)


def test_gains_stand_at_their_stage_though_one_before_is_missing() -> None:
    published = [("original", 0.0), ("+GD", 2.0), ("+R", 5.0)]
    panel = Gains("MHE", published, [("original", [0.0]), ("+R", [3.0, 5.0])], 62.6, None)
    (axis,) = draw_gains([panel]).axes
    mean = next(line for line in axis.lines if line.get_label() == "here, mean")
    assert list(mean.get_xdata()) == [0, 2] and list(mean.get_ydata()) == [0, 4]
    assert "original: 62.6 published, not measured" in axis.get_title(loc="left")


def test_bars_are_as_high_as_their_means_and_a_missing_one_is_left_out() -> None:
    published, here = draw_bars(
        [Bar("MHE", 62.6, 78.4, [], [])], [Bar("MHE", None, 40.0, [], [39.0, 41.0])], (76.2, None), "STS-B test"
    ).axes
    assert [patch.get_height() for patch in published.patches] == [62.6, 78.4]
    assert [patch.get_height() for patch in here.patches] == [40.0]
    assert "76.2" in [text.get_text() for text in published.texts]
    assert published.get_ylim() == pytest.approx((0, 1.08 * 78.4)) and here.get_ylim() == pytest.approx((0, 1.08 * 41))


def test_a_change_of_one_seed_has_no_interval() -> None:
    lines = [("STS12", 18.2, 3.0, nan, nan), ("average", 15.8, 2.0, 1.0, 3.0), ("SICK-R", 8.6, None, None, None)]
    (axis,) = draw_changes([Changes("MHE → mMHE", lines)], "change").axes
    labels = [line.get_label() for line in axis.lines]
    assert labels.count("95 % interval") == 1 and labels.count("here") == 2 and labels.count("published") == 3
    low, high = axis.get_ylim()
    assert low > high  # the first set is on top


def test_the_best_trials_are_drawn_and_the_others_are_counted() -> None:
    lines = [(f"m {k}", 80.0 - k, k == 2) for k in range(12)]
    axis, empty = draw_trials([Trials("mMHE", lines, [70.0, 72.0]), Trials("mMHS", [], [])]).axes
    assert axis.get_title(loc="left") == f"mMHE, the best {MOST_TRIALS} of 12 trials"
    assert len(axis.get_yticklabels()) == MOST_TRIALS
    (published,) = (line for line in axis.lines if line.get_marker() == "s")
    assert (published.get_xdata()[0], published.get_ydata()[0]) == (78, 2)
    (fresh,) = (line for line in axis.lines if line.get_marker() == "D")
    assert list(fresh.get_xdata()) == [70, 72] and set(fresh.get_ydata()) == {0}  # of the winner
    assert [text.get_text() for text in empty.texts] == ["not measured"]
