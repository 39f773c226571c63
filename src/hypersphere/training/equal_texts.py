"""Equal texts in a batch: the rows that share one are no negatives of each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor


def text_ids(texts: Sequence[str]) -> Tensor:
    """A number for each text, the same on every process and machine: 63 bits of its hash."""
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return torch.tensor([int.from_bytes(each, "big") >> 1 for each in hashes])


def instance_ids(texts: Tensor, hard: Tensor | None = None) -> dict[str, Tensor]:
    """``ids`` and, if there are hard negatives, ``ids_negatives`` of a batch, from the ids of its texts (N, columns)
    and of the hard negatives' (M,).

    Instances that have a text in common, in whichever column, have the same id. Equality of one of two texts is not
    transitive, but an id is: two instances that each share a text with a third have the same id too. A hard negative
    has the id of the instances that hold its text, -1 if none does.

    >>> instance_ids(torch.tensor([[1, 2], [3, 2], [4, 5], [6, 3]]), torch.tensor([9, 7, 1, 5]))
    {'ids': tensor([0, 0, 2, 0]), 'ids_negatives': tensor([-1, -1, 0, 2])}
    """
    ids = _joined(texts)
    if hard is None:
        return {"ids": ids}
    known, order = texts.flatten().sort()
    place = torch.searchsorted(known, hard.contiguous()).clamp_max(len(known) - 1)
    owner = ids.unsqueeze(1).expand_as(texts).flatten()[order][place]
    return {"ids": ids, "ids_negatives": torch.where(known[place] == hard, owner, -1)}


def _joined(texts: Tensor) -> Tensor:
    """For each row (N,), the first row that it shares a text with, directly or through others."""
    number = texts.unique(return_inverse=True)[1]
    first = torch.arange(len(texts), device=texts.device)
    while True:
        of_text = first.new_full((int(number.max()) + 1,), len(texts))
        of_text.scatter_reduce_(0, number.flatten(), first.unsqueeze(1).expand_as(number).flatten(), "amin")
        lower = of_text[number].amin(dim=1)
        lower = lower[lower]
        if torch.equal(lower, first):
            return first
        first = lower


def equal_pairs(ids: Tensor, ids_negatives: Tensor | None = None) -> int:
    """How many pairs of instances, and of an instance and a hard negative, have the same id.

    >>> equal_pairs(torch.tensor([3, 1, 3, 3]), torch.tensor([1, 2, -1]))
    4
    """
    _, sizes = ids.unique(return_counts=True)
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    if ids_negatives is not None:
        ordered = ids.sort().values
        right = torch.searchsorted(ordered, ids_negatives, right=True)
        pairs += int((right - torch.searchsorted(ordered, ids_negatives)).sum())
    return pairs
