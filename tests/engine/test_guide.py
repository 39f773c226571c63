"""A guide drops what it finds nearer to the anchor than the positive, on cosines written by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hypersphere.engine.guide import Guide, GuideRule


def at(*cosines: float) -> Tensor:
    """Unit rows of these cosines with (1, 0)."""
    return torch.tensor([[c, math.sqrt(1 - c * c)] for c in cosines], dtype=torch.float64)


@pytest.mark.parametrize(
    ("strategy", "margin", "thresholds"),
    [
        ("absolute", 0.0, [0.6, -0.6]),
        ("absolute", 0.1, [0.5, -0.7]),
        ("relative", 0.1, [0.54, -0.66]),  # a tenth of |cosine| below it, on either side of 0
        ("relative", -0.5, [0.9, -0.3]),
    ],
)
def test_the_threshold_is_a_margin_below_the_cosine_of_the_positive(
    strategy: str, margin: float, thresholds: list[float]
) -> None:
    guide = Guide((at(1, 1), at(0.6, -0.6), at()), GuideRule(margin, strategy))
    assert guide.threshold(0, 1).tolist() == pytest.approx(thresholds, abs=1e-14)


def test_columns_above_the_threshold_are_dropped_and_ties_with_the_positive_stay() -> None:
    keys = at(0.6, 0.8, 0.59, 0.0)
    guide = Guide((at(1, 1, 1, 1), keys, at(0.7, -1)), GuideRule())
    threshold = guide.threshold(0, 1)
    dropped = torch.empty(2, 4, dtype=torch.bool)
    guide.dropped(0, slice(0, 2), 1, threshold, dropped)
    assert dropped.tolist() == [[False, True, False, False], [False, False, False, False]]
    extra = torch.empty(1, 2, dtype=torch.bool)
    guide.dropped(0, slice(2, 3), 2, threshold, extra)
    assert extra.tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_copy_of_the_positive_stays_whatever_the_order_of_the_product(dtype: torch.dtype) -> None:
    """Cosines of blocks and of single pairs differ in their last bits."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(64, 300, generator=generator, dtype=dtype))
    guide = Guide((rows, rows[0].expand(64, 300), rows[:0]), GuideRule())
    dropped = torch.empty(64, 64, dtype=torch.bool)
    guide.dropped(0, slice(0, 64), 1, guide.threshold(0, 1), dropped)
    assert not dropped.any()


def test_blocks_of_any_size_drop_the_same() -> None:
    """The memory of one block serves the next, of another shape."""
    generator = torch.Generator().manual_seed(1)
    first, second, extra = (
        torch.nn.functional.normalize(torch.randn(count, 5, generator=generator, dtype=torch.float64))
        for count in (9, 9, 4)
    )
    guide = Guide((first, second, extra), GuideRule(0.2))
    threshold = guide.threshold(0, 1)
    for part, keys in ((1, second), (2, extra), (0, first)):
        expected = [[float(a @ b) > float(t) for b in keys] for a, t in zip(first, threshold, strict=True)]
        for size in (2, 9, 4):
            seen = torch.empty(9, len(keys), dtype=torch.bool)
            for start in range(0, 9, size):
                block = slice(start, min(start + size, 9))
                guide.dropped(0, block, part, threshold, seen[block])
            assert seen.tolist() == expected
    torch.testing.assert_close(guide.cosines(0, torch.tensor([3, 1]), 2), first[[3, 1]] @ extra.T)
