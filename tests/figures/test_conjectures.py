"""Figures of gradient components: ranges, gaps of means, baselines, and what was not measured."""

from __future__ import annotations

import pytest

from hypersphere.figures.conjectures import (
    NOTHING,
    AnglePanel,
    CosinePanel,
    SweepPanel,
    draw_angles,
    draw_cosines,
    draw_lower_ends,
    draw_shares,
    draw_sweeps,
)


def test_the_axis_of_cosines_begins_at_the_first_bin_with_pairs_and_the_gap_is_in_words() -> None:
    full = CosinePanel("with", [0, 0, 0, 1.0], [0, 0.001, 1.0, 0], 0.75, 0.25)
    figure = draw_cosines([full, CosinePanel("without", [], [], None, None)])
    above, below = figure.axes
    assert above.get_xlim() == pytest.approx((-0.08, 1))  # the bin from 0; the one from -0.5 has too few
    assert "gap of the means 0.500" in [text.get_text() for text in above.texts]
    assert [text.get_text() for text in below.texts] == [NOTHING]


def test_the_baseline_of_a_sweep_is_ringed_at_its_mean() -> None:
    panel = SweepPanel("margin m", "m", ["0.3", "0.5", "none"], [[70.0, 74.0], [], [60.0]], 0)
    (axis,) = draw_sweeps([panel], "score", given=50.0).axes
    by_label = {line.get_label(): line for line in axis.lines}
    assert list(by_label["mean over seeds"].get_xdata()) == [0, 2]
    assert list(by_label["mean over seeds"].get_ydata()) == [72, 60]
    assert [by_label["the baseline"].get_xdata()[0], by_label["the baseline"].get_ydata()[0]] == [0, 72]
    assert set(by_label["encoder as given"].get_ydata()) == {50}


def test_shares_have_a_tick_at_every_temperature() -> None:
    (axis,) = draw_shares({"untrained": [(0.01, 0.9), (0.3, 0.1)], "trained": []}).axes
    assert list(axis.get_xticks()) == [0.01, 0.3] and axis.get_xscale() == "log"
    assert NOTHING in [text.get_text() for text in draw_shares({"untrained": []}).axes[0].texts]


def test_lower_ends_are_drawn_from_their_quantiles() -> None:
    ends = [(0.1, [0.1, 0.2, 0.3, 0.4, 0.5])]
    first, second, _ = draw_lower_ends(ends, {"MET": []}, SweepPanel("c", "r", ["1"], [[0.8]], 0)).axes
    whole, half, median = (list(line.get_ydata()) for line in first.lines)
    assert (whole, half, median) == ([0.1, 0.5], [0.2, 0.4], [0.3, 0.3])
    assert [text.get_text() for text in second.texts] == [NOTHING]


def test_the_range_that_is_asked_for_stays_in_sight() -> None:
    panels = [AnglePanel("μ", {"met": [(0, 0.5), (9, 0.4)]}, (0.1, 1.5), None),
              AnglePanel("σ", {"met": []}, (0.02, 0.1), 0.05)]  # fmt: skip
    left, right = draw_angles(panels).axes
    assert left.get_ylim() == pytest.approx((0, 1.08 * 1.5))
    assert [line.get_ydata()[0] for line in right.lines] == [0.05]  # the value that was assumed
    assert [text.get_text() for text in right.texts] == [NOTHING]
