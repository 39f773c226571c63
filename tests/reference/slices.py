"""Objectives of rows projected on directions, one row, one direction and one knot at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from tests.reference.features import feature_columns, refuse_negatives
from tests.reference.vectors import Labels, Matrix, Rows, Vector, dot, mean, to_rows


def columns_of(directions: Rows | None, width: int) -> Matrix:
    """The directions, each as a list; the coordinate axes if none are given."""
    if directions is None:
        return [[float(k == m) for k in range(width)] for m in range(width)]
    return [[float(row[m]) for row in directions] for m in range(len(directions[0]))]


def prediction(views: Sequence[Matrix], num_global: int | None) -> float:
    """The mean of (z - centre)^2 over views, rows and dimensions; the centre is that of the first views."""
    count = len(views) if num_global is None else num_global
    squares = []
    for n in range(len(views[0])):
        for k in range(len(views[0][0])):
            centre = mean([views[v][n][k] for v in range(count)])
            squares += [(view[n][k] - centre) ** 2 for view in views]
    return mean(squares)


def normal(t: float) -> float:
    """The characteristic function of a normal variable."""
    return math.exp(-t * t / 2)


def epps_pulley(values: Vector, knots: int, t_max: float, law: Callable[[float], float] = normal) -> float:
    """N times the integral of |phi(t) - law(t)|^2 e^{-t^2/2} over [-t_max, t_max], a trapezoid at a time."""

    def integrand(t: float) -> float:
        real = mean([math.cos(t * x) for x in values]) - law(t)
        imaginary = mean([math.sin(t * x) for x in values])
        return (real**2 + imaginary**2) * math.exp(-t * t / 2)

    step = t_max / (knots - 1)
    total = 0.0
    for k in range(1 - knots, knots - 1):
        total += step * (integrand(k * step) + integrand((k + 1) * step)) / 2
    return len(values) * total


def sigreg(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    knots: int = 17,
    t_max: float = 3.0,
    weight: float = 0.05,
    num_global: int | None = None,
    num_slices: int | None = None,
    directions: Rows | None = None,
) -> float:
    """(1-w) prediction + w mean over views and directions of the statistic of Epps and Pulley."""
    refuse_negatives("sigreg", negatives)
    views = [to_rows(z1), to_rows(z2)]
    tests = []
    for view in views:
        for direction in columns_of(directions, len(view[0])):
            tests.append(epps_pulley([dot(row, direction) for row in view], knots, t_max))
    return (1 - weight) * prediction(views, num_global) + weight * mean(tests)


def visreg(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    scale: float = 1.0,
    shape: float = 1.0,
    center: float = 1.0,
    eps: float = 1e-6,
    weight: float = 0.9,
    num_global: int | None = None,
    num_slices: int | None = None,
    directions: Rows | None = None,
    deviations: Sequence[Vector] | None = None,
) -> float:
    """(1-w) prediction + w (center mean^2 + scale (1-deviation)^2 + shape (sorted projection - quantile)^2).

    deviations: of each view, in place of those that divide its rows; they carry no gradient."""
    refuse_negatives("visreg", negatives)
    views = [to_rows(z1), to_rows(z2)]
    total = 0.0
    for place, view in enumerate(views):
        features = feature_columns(view)
        means = [mean(column) for column in features]
        spreads = [math.sqrt(mean([(v - m) ** 2 for v in column])) for column, m in zip(features, means, strict=True)]
        total += center * mean([m * m for m in means]) + scale * mean([(1 - s) ** 2 for s in spreads])
        divisors = [max(s, eps) for s in (spreads if deviations is None else deviations[place])]
        gaps = []
        for direction in columns_of(directions, len(view[0])):
            projections = []
            for row in view:
                standard = [(v - m) / d for v, m, d in zip(row, means, divisors, strict=True)]
                projections.append(dot(standard, direction))
            for rank, value in enumerate(sorted(projections), start=1):
                gaps.append((value - NormalDist().inv_cdf(rank / (len(view) + 1))) ** 2)
        total += shape * mean(gaps)
    return (1 - weight) * prediction(views, num_global) + weight * total / len(views)
