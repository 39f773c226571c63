"""Triplets and the paradigm."""

from __future__ import annotations

import math
from functools import partial

from tests.reference.gradients import raw_gradients
from tests.reference.vectors import (
    Gradients,
    Labels,
    Matrix,
    Rows,
    Vector,
    angle_of,
    euclidean,
    mean,
    negative_cosines,
    positive_cosines,
    softmax,
    unit_rows,
)

DEFAULT_MARGINS = {"dot": 0.23, "euclidean": 0.45, "angle": 0.15 * math.pi}


def triplet(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    distance: str = "dot",
    margin: float | None = None,
) -> float:
    """max(0, d_ii - min_{j != i} d_ij + m), d = -cos, sqrt(2 - 2 cos) or arccos(cos)."""
    if distance not in DEFAULT_MARGINS:
        raise ValueError(f"unknown distance {distance!r}")
    measure = {"dot": lambda c: -c, "euclidean": euclidean, "angle": angle_of}[distance]
    m = DEFAULT_MARGINS[distance] if margin is None else margin
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    out = []
    for c, row in zip(positive_cosines(h, hp), negative_cosines(h, hp, extra), strict=True):
        nearest = min(measure(s) for s in row)
        out.append(max(0.0, measure(c) - nearest + m))
    return mean(out)


mpt = partial(triplet, distance="dot")
met = partial(triplet, distance="euclidean")
mat = partial(triplet, distance="angle")


def gate(h: Matrix, hp: Matrix, extra: Matrix, margin: float) -> Vector:
    """d_i = 1[s_ii - max_{k != i} s_ik < m]."""
    out = []
    for c, row in zip(positive_cosines(h, hp), negative_cosines(h, hp, extra), strict=True):
        out.append(1.0 if c - max(row) < margin else 0.0)
    return out


def baseline_components(
    h: Matrix, hp: Matrix, extra: Matrix, margin: float, temperature: float
) -> tuple[Vector, Matrix]:
    """GD_i = d_i and W_ij = softmax_{j != i}(s_ij/tau), over the columns j != i and then the extra rows."""
    weights = [softmax([s / temperature for s in row]) for row in negative_cosines(h, hp, extra)]
    return gate(h, hp, extra, margin), weights


def paradigm(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.0,
) -> float:
    """GD_i sum_{j != i} W_ij (s_ij - r s_ii), GD the gate and W the softmax."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    gates, weights = baseline_components(h, hp, extra, margin, temperature)
    positive, negative = positive_cosines(h, hp), negative_cosines(h, hp, extra)
    out = []
    for i, row in enumerate(negative):
        value = 0.0
        for w, s in zip(weights[i], row, strict=True):
            value += w * (s - ratio * positive[i])
        out.append(gates[i] * value)
    return mean(out)


def paradigm_unit_gradient(
    h: Matrix, hp: Matrix, extra: Matrix, gates: Vector, weights: Matrix, ratios: Vector
) -> Gradients:
    """Gradients in h and h' of (1/N) sum_i GD_i sum_j W_ij (s_ij - R_i s_ii), with GD, W, R constants."""
    n, width = len(h), len(h[0])
    grad_h = [[0.0] * width for _ in range(n)]
    grad_hp = [[0.0] * width for _ in range(n)]
    for i in range(n):
        keys = [j for j in range(n) if j != i] + list(range(n, n + len(extra)))
        for j, w in zip(keys, weights[i], strict=True):
            scale = gates[i] * w / n
            key = hp[j] if j < n else extra[j - n]
            for k in range(width):
                grad_h[i][k] += scale * (key[k] - ratios[i] * hp[i][k])
                grad_hp[i][k] -= scale * ratios[i] * h[i][k]
                if j < n:
                    grad_hp[j][k] += scale * h[i][k]
    return grad_h, grad_hp


def paradigm_gradient(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.0,
) -> Gradients:
    """Raw-row gradient of (1/N) sum_i GD_i sum_j W_ij (s_ij - r s_ii), weights detached, vectors attached."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    gates, weights = baseline_components(h, hp, extra, margin, temperature)
    grad_h, grad_hp = paradigm_unit_gradient(h, hp, extra, gates, weights, [ratio] * len(h))
    return raw_gradients(z1, grad_h), raw_gradients(z2, grad_hp)
