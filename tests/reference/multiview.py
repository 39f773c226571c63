"""Objectives of several views, one pair of rows at a time."""

from __future__ import annotations

import math

from tests.reference.vectors import Labels, Rows, dot, mean, unit_rows


def mv_infonce(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.5,
    denominator: str = "all",
    views: tuple[Rows, ...] = (),
) -> float:
    """-log of the share of the instance's own pairs of views in the sum over all pairs with its rows."""
    u, extra = [unit_rows(z) for z in (z1, z2, *views)], unit_rows(negatives)
    losses = []
    for i in range(len(u[0])):
        own, everything = 0.0, 0.0
        for v, anchors in enumerate(u):
            for w, columns in enumerate(u):
                if w == v and denominator == "other":
                    continue
                for j, column in enumerate(columns):
                    if (v, i) != (w, j):
                        everything += math.exp(dot(anchors[i], column) / temperature)
                if w != v:
                    own += math.exp(dot(anchors[i], columns[i]) / temperature)
            for row in extra:
                everything += math.exp(dot(anchors[i], row) / temperature)
        losses.append(-math.log(own / everything))
    return mean(losses)


def mv_dhel(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.5,
    pairs: str = "unordered",
    views: tuple[Rows, ...] = (),
) -> float:
    """-log Σ over pairs of views + Σ_v log Σ_{j != i} within the view."""
    u, extra = [unit_rows(z) for z in (z1, z2, *views)], unit_rows(negatives)
    losses = []
    for i in range(len(u[0])):
        own, energy = 0.0, 0.0
        for v, anchors in enumerate(u):
            for w, columns in enumerate(u):
                if (v < w) if pairs == "unordered" else (v != w):
                    own += math.exp(dot(anchors[i], columns[i]) / temperature)
            within = [dot(anchors[i], row) for j, row in enumerate(anchors) if j != i]
            within += [dot(anchors[i], row) for row in extra]
            energy += math.log(sum(math.exp(s / temperature) for s in within))
        losses.append(-math.log(own) + energy)
    return mean(losses)
