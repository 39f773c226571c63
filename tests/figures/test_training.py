"""Curves of a run: a scale has at least two numbers on it."""

import pytest

from hypersphere.figures.training import draw_run


@pytest.mark.parametrize("lengths", [(1.2, 1.9), (5.1, 5.2), (3.0, 3.0), (0.8, 1.4), (0.01, 30.0)])
def test_lengths_have_two_ticks_at_least(lengths):
    records = [
        {"step": step, "split": "training", "embedding_norm": value} for step, value in enumerate(lengths, start=1)
    ]
    (axis,) = draw_run(records).axes
    low, high = axis.get_ylim()
    inside = [tick for tick in axis.get_yticks() if low <= tick <= high]
    assert axis.get_title(loc="left") == "Lengths" and 2 <= len(inside) <= 12
