"""Graded pairs."""

from __future__ import annotations

import math

from tests.reference.vectors import Rows, Vector, dot, unit_rows


def _similarity(h: Vector, hp: Vector, kind: str) -> float:
    if kind == "cosine":
        return dot(h, hp)
    if len(h) % 2:
        h, hp = [*h, 0.0], [*hp, 0.0]
    half = len(h) // 2
    turned = [-each for each in hp[half:]] + list(hp[:half])
    return abs(dot(h, hp) + dot(h, turned))


def cosent(z1: Rows, z2: Rows, scores: list[float], scale: float = 20.0, similarity: str = "cosine") -> float:
    """log(1 + sum over pairs of pairs in the order of their scores of e^{scale (r_i - r_j)})."""
    r = [_similarity(h, hp, similarity) for h, hp in zip(unit_rows(z1), unit_rows(z2), strict=True)]
    total = 1.0
    for i, lower in enumerate(scores):
        for j, higher in enumerate(scores):
            if lower < higher:
                total += math.exp(scale * (r[i] - r[j]))
    return math.log(total)
