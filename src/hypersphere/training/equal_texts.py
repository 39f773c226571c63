"""Equal texts in a batch: the rows that share one are no negatives of each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor


def text_ids(texts: Sequence[str]) -> Tensor:
    """A number for each text, the same on every process and machine: 63 bits of its hash."""
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return torch.tensor([int.from_bytes(each, "big") >> 1 for each in hashes])


def instance_ids(texts: Tensor) -> dict[str, Tensor]:
    """``ids`` and, of triples, ``ids_negatives`` of a batch, from the ids of its texts (N, columns).

    Instances that have a text in common, in whichever column, have the same id. Equality of one of two texts is not
    transitive, but an id is: two instances that each share a text with a third have the same id too. A hard negative,
    the third text, has the id of the instances that hold its text, -1 if none does.

    >>> instance_ids(torch.tensor([[1, 2, 9], [3, 2, 7], [4, 5, 1], [6, 3, 5]]))
    {'ids': tensor([0, 0, 1, 0]), 'ids_negatives': tensor([-1, -1, 0, 1])}
    """
    own, negatives = texts[:, :2], texts[:, 2:]
    different, place = own.unique(return_inverse=True)
    ends = place.cpu().numpy()
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, -1])), shape=(len(different), len(different)))
    groups = torch.from_numpy(connected_components(graph, directed=False)[1]).long().to(texts.device)
    ids = {"ids": groups[place[:, 0]]}
    if negatives.shape[1]:
        nearest = torch.searchsorted(different, negatives[:, 0].contiguous()).clamp_max(len(different) - 1)
        ids["ids_negatives"] = torch.where(different[nearest] == negatives[:, 0], groups[nearest], -1)
    return ids


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
