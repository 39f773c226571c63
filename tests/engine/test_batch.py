"""What an objective is given of a batch: masks, equal labels, one mask for each matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.objectives import PairwiseObjective
from hypersphere.testing.example import views


@pytest.mark.parametrize("classes", [2, 40])
def test_equal_labels_are_found_whether_few_or_many(classes: int) -> None:
    """Listed class by class if there are few, found by comparing every pair if there are many."""
    z1, z2 = views(120, 4)
    labels = torch.randint(-1, classes, (120,), generator=torch.Generator().manual_seed(1))
    seen: list[Tensor] = []

    class Watching(PairwiseObjective):
        negatives = "both"
        labelled = True

        def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
            seen.append(same_label[0])
            return positive

    with hs.streaming(50):
        Watching()(z1, z2, labels, negatives=torch.randn(3, 4, dtype=torch.float64))
    expected = torch.zeros(120, 243, dtype=torch.bool)
    for i in range(120):
        for j in range(120):
            if i != j and labels[i] == labels[j] != -1:
                expected[i, j] = expected[i, 120 + j] = True
    assert torch.equal(torch.cat(seen), expected)
    assert any(hasattr(mask, "_exceptions") for mask in seen) == (classes == 40)


@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("rows", [4, 50])
def test_every_matrix_has_a_mask_of_its_own_width(extra: int, rows: int) -> None:
    """Its own instance is left out once in "cross" and "same", twice in "both"."""
    seen: list[tuple[Any, Any]] = []

    class Watching(PairwiseObjective):
        negatives = ("cross", "both", "other")

        def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
            seen.append((negatives, mask))
            return positive

    with hs.streaming(rows):
        Watching()(*views(9, 4), negatives=views(extra, 4, seed=5)[0] if extra else None)
    for place, (width, own) in enumerate([(9, 1), (18, 2), (9, 1)]):
        matrix, mask = (torch.cat([each[side][place] for each in seen]) for side in (0, 1))
        expected = torch.ones(9, width + extra, dtype=torch.bool)
        for i in range(9):
            expected[i, [i, i + 9][:own]] = False
        assert matrix.shape == mask.shape and torch.equal(mask, expected)
