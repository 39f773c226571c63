"""Objectives of the spectrum of the features. Eigenvalues of small symmetric matrices are NumPy's."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.features import feature_columns, refuse_negatives
from tests.reference.vectors import Labels, Matrix, Rows, dot, mean, norm, unit_rows


def eigenvalues(rows: Matrix) -> list[float]:
    """Those of the matrix of all inner products of the rows."""
    gram = [[dot(x, y) for y in rows] for x in rows]
    return [max(0.0, float(value)) for value in np.linalg.eigvalsh(np.array(gram))]


def wasserstein(z1: Rows, z2: Rows, labels: Labels | None = None, negatives: Rows | None = None) -> float:
    """sqrt(|mean|^2 + 1 + tr S - (2/sqrt D) tr S^{1/2}), S the biased covariance of both views together."""
    refuse_negatives("wasserstein", negatives)
    features = feature_columns(unit_rows(z1) + unit_rows(z2))
    size, width = len(features[0]), len(features)
    means = [mean(column) for column in features]
    centred = [[(v - m) / math.sqrt(size) for v in column] for column, m in zip(features, means, strict=True)]
    spectrum = eigenvalues(centred)
    squared = dot(means, means) + 1 + sum(spectrum) - 2 / math.sqrt(width) * sum(math.sqrt(v) for v in spectrum)
    return math.sqrt(squared)


def mmcr(
    z1: Rows, z2: Rows, labels: Labels | None = None, negatives: Rows | None = None, *, weight: float = 0.0
) -> float:
    """-|C|_* + w mean_n |Z_n|_*, C the mean of the two views' unit rows, Z_n the two unit rows of an instance."""
    refuse_negatives("mmcr", negatives)
    pairs = list(zip(unit_rows(z1), unit_rows(z2), strict=True))
    centres = [[(a + b) / 2 for a, b in zip(x, y, strict=True)] for x, y in pairs]
    capacity = sum(math.sqrt(value) for value in eigenvalues(feature_columns(centres)))
    own = [sum(math.sqrt(value) for value in eigenvalues([x, y])) for x, y in pairs]
    return weight * mean(own) - capacity


def frossl(
    z1: Rows, z2: Rows, labels: Labels | None = None, negatives: Rows | None = None, *, weight: float = 1.0
) -> float:
    """sum_v log |C_v|^2 + w V D mean (Z_v - centre)^2, C_v the inner products of unit columns, divided by D."""
    refuse_negatives("frossl", negatives)
    views = []
    for z in (z1, z2):
        features = feature_columns(z)
        views.append([[v / norm(column) for v in column] for column in features])
    total, width = 0.0, len(views[0])
    for view in views:
        squares = 0.0
        gaps = []
        for k, x in enumerate(view):
            for y in view:
                squares += (dot(x, y) / width) ** 2
            gaps += [(v - (a + b) / 2) ** 2 for v, a, b in zip(x, views[0][k], views[1][k], strict=True)]
        total += math.log(squares) + weight * 2 * width * mean(gaps)
    return total
