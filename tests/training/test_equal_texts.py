"""Which rows of a batch share a text, against loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hypersphere.training.equal_texts import equal_pairs, instance_ids, text_ids


def test_ids_are_those_of_the_texts_and_the_same_everywhere() -> None:
    ids = text_ids(["a cat", "a dog", "a cat", "a cat "])
    assert ids[0] == ids[2] and len(set(ids.tolist())) == 3 and bool((ids >= 0).all())
    assert ids[0].item() == 3745569759787347665  # on any machine


def joined(texts: Tensor) -> list[set[int]]:
    """For each row, all rows that it shares a text with, or that share one with these, and so on."""
    own = [set(row[:2].tolist()) for row in texts]
    groups = [{i} for i in range(len(own))]
    for _ in own:  # as often as the longest chain needs
        groups = [{k for k in range(len(own)) if any(own[k] & own[j] for j in group)} for group in groups]
    return groups


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("different", [6, 14, 40])
def test_rows_joined_by_texts_have_one_id(columns: int, different: int) -> None:
    texts = torch.randint(different, (12, columns), generator=torch.Generator().manual_seed(different))
    ids = instance_ids(texts[:, :2], texts[:, 2] if columns == 3 else None)
    groups = joined(texts)
    for i in range(12):
        assert {j for j in range(12) if ids["ids"][j] == ids["ids"][i]} == groups[i]
    assert ("ids_negatives" in ids) == (columns == 3)
    for k, number in enumerate(ids.get("ids_negatives", [])):
        holders = {i for i in range(12) if int(texts[k, 2]) in texts[i, :2].tolist()}
        expected = set().union(*(groups[i] for i in holders))
        assert {i for i in range(12) if ids["ids"][i] == number} == expected
        assert expected or number == -1


def test_counted_pairs_are_those_that_loops_find() -> None:
    ids, negatives = torch.randint(5, (12,)), torch.randint(-1, 8, (7,))
    own = sum(int(ids[i] == ids[j]) for i in range(12) for j in range(i))
    further = sum(int(i == k) for i in ids for k in negatives)
    assert equal_pairs(ids) == own and equal_pairs(ids, negatives) == own + further
