"""Rows worth looking at: hubs, copies, and rows that are almost copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from torch import Tensor

from hypersphere.diagnostics.moments import Moments
from hypersphere.diagnostics.pairs import Neighbours

HUB, COPIES, NEAR_COPIES = "hub", "copies", "near copies"
MOST = 5  # of each kind
SAME = 0.9999  # cosine above which two rows count as near duplicates


@dataclass(frozen=True)
class Notable:
    """Rows by their number from 0 (of many copies the first few), why they are listed, and their texts if known."""

    kind: str
    rows: list[int]
    count: int  # how many rows there are, listed or not
    words: str
    texts: list[str]


def notable_rows(
    moments: Moments, near: Neighbours, drawn: Tensor, texts: Sequence[str] | None = None
) -> list[Notable]:
    """At most five of each kind. Copies are found among all rows, hubs and near copies among the rows ``drawn``."""
    k = near.indices.shape[1]

    def named(kind: str, rows: list[int], count: int, words: str) -> Notable:
        known = [] if texts is None else list(dict.fromkeys(str(texts[row]) for row in rows))
        return Notable(kind, rows, count, words, known)

    alike = (pair for pair in _near_copies(near, drawn) if not moments.equal(*pair[:2]))
    return [
        *(named(HUB, [int(drawn[index])], 1, f"among the {k} nearest of {times:,.0f}") for index, times in _hubs(near)),
        *(named(COPIES, rows, count, f"{count:,} equal rows") for rows, count in moments.copies(MOST)),
        *(named(NEAR_COPIES, [one, two], 2, f"cosine {cosine:.6f}") for one, two, cosine in islice(alike, MOST)),
    ]


def _hubs(near: Neighbours) -> list[tuple[int, float]]:
    """Indices in the sample and counts of the rows that are neighbours most often, two standard deviations above the
    mean or more (Radovanović et al. 2010, section 4)."""
    times = near.occurrences
    limit = float(times.mean() + 2 * times.std(correction=0))
    most = times.sort(descending=True, stable=True)
    return [
        (index, count)
        for index, count in zip(most.indices[:MOST].tolist(), most.values[:MOST].tolist(), strict=True)
        if count >= limit and count > float(times.mean())
    ]


def _near_copies(near: Neighbours, drawn: Tensor) -> list[tuple[int, int, float]]:
    """Pairs of rows that are each other's match above ``SAME``, the nearest first, each pair once."""
    indices = (near.nearest > SAME).nonzero().flatten()
    pairs: dict[tuple[int, int], float] = {}
    for index in indices[near.nearest[indices].argsort(descending=True, stable=True)].tolist():
        one, other = int(drawn[index]), int(drawn[near.indices[index, 0]])
        pairs.setdefault((min(one, other), max(one, other)), float(near.nearest[index]))
    return [(*rows, cosine) for rows, cosine in pairs.items()]
