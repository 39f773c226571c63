"""Vectors as lists, and the cosines that objectives read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Vector = list[float]
Matrix = list[list[float]]
Rows = Sequence[Sequence[float]] | np.ndarray
Labels = Sequence[int] | np.ndarray
Gradients = tuple[Matrix, Matrix]


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    """x.y = sum_k x_k y_k."""
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += a * b
    return total


def norm(x: Sequence[float]) -> float:
    """|x| = sqrt(x.x), scaled by the largest entry first."""
    largest = max(abs(v) for v in x)
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(sum((v / largest) * (v / largest) for v in x))


def to_rows(z: Rows | None) -> Matrix:
    """Plain lists of floats, the empty list for None."""
    return [] if z is None else [[float(v) for v in row] for row in z]


def unit_rows(z: Rows | None) -> Matrix:
    """h_i = g_i/|g_i|, a zero row stays zero."""
    out = []
    for row in to_rows(z):
        length = norm(row)
        out.append([v / length for v in row] if length > 0.0 else [0.0 for _ in row])
    return out


def logsumexp(values: Sequence[float]) -> float:
    """LSE(v) = log sum_k e^{v_k}, with the maximum subtracted first."""
    top = max(values)
    total = 0.0
    for v in values:
        total += math.exp(v - top)
    return top + math.log(total)


def softmax(values: Sequence[float]) -> Vector:
    """q_k = e^{v_k}/sum_l e^{v_l}."""
    log_total = logsumexp(values)
    return [math.exp(v - log_total) for v in values]


def softplus(v: float) -> float:
    """log(1 + e^v)."""
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return math.fsum(values) / len(values)


def squared_distance(cosine: float) -> float:
    """q = 2 - 2 cos."""
    return max(0.0, 2.0 - 2.0 * cosine)


def euclidean(cosine: float) -> float:
    """d = sqrt(2 - 2 cos)."""
    return math.sqrt(squared_distance(cosine))


def angle_of(cosine: float) -> float:
    """theta = arccos(cos)."""
    return math.acos(max(-1.0, min(1.0, cosine)))


def positive_cosines(h: Matrix, hp: Matrix) -> Vector:
    """c_i = s_ii = h_i.h'_i."""
    return [dot(x, y) for x, y in zip(h, hp, strict=True)]


def negative_cosines(h: Matrix, columns: Matrix, extra: Matrix) -> Matrix:
    """Row i: h_i.n_j over the columns j != i, then over the extra rows."""
    out = []
    for i, x in enumerate(h):
        row = []
        for j, y in enumerate(columns):
            if j != i:
                row.append(dot(x, y))
        for e in extra:
            row.append(dot(x, e))
        out.append(row)
    return out


def stacked_cosines(h: Matrix, hp: Matrix, extra: Matrix) -> tuple[Vector, Matrix]:
    """z = (h, h'), per row of the 2N: the positive z_i.z_j(i) and the 2N-2 negatives, then the extra rows."""
    n = len(h)
    z = h + hp
    positives, negatives = [], []
    for i in range(2 * n):
        partner = i + n if i < n else i - n
        positives.append(dot(z[i], z[partner]))
        row = []
        for a in range(2 * n):
            if a != i and a != partner:
                row.append(dot(z[i], z[a]))
        for e in extra:
            row.append(dot(z[i], e))
        negatives.append(row)
    return positives, negatives


def anchor_views(h: Matrix, hp: Matrix, views: str) -> list[tuple[Matrix, Matrix]]:
    """The pairs (x, y): anchor view and other view."""
    if views == "both":
        return [(h, hp), (hp, h)]
    if views == "anchor":
        return [(h, hp)]
    raise ValueError(f"unknown views {views!r}")
