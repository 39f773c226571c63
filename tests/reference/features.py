"""Objectives of feature covariance."""

from __future__ import annotations

import math

from tests.reference.vectors import Labels, Matrix, Rows, Vector, dot, mean, to_rows, unit_rows


def refuse_negatives(name: str, negatives: Rows | None) -> None:
    """Objectives over features have no columns to which extra rows could be added."""
    if negatives is not None:
        raise ValueError(f"{name} has no pairwise negatives")


def feature_columns(z: Rows) -> Matrix:
    """The D features, each as a list over the N rows."""
    rows = to_rows(z)
    return [[row[k] for row in rows] for k in range(len(rows[0]))]


def batch_normalised(column: Vector, eps: float = 1e-5) -> Vector:
    """(x - mean)/sqrt(var + eps), biased variance."""
    centre = mean(column)
    variance = mean([(v - centre) * (v - centre) for v in column])
    return [(v - centre) / math.sqrt(variance + eps) for v in column]


def barlow(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    weight: float = 0.0051,
    normalization: str = "batch",
) -> float:
    """sum_k (C_kk-1)^2 + w sum_{k != l} C_kl^2, C = (1/N) sum_i x_i y_i^T."""
    refuse_negatives("barlow", negatives)
    if normalization == "batch":
        first = [batch_normalised(column) for column in feature_columns(z1)]
        second = [batch_normalised(column) for column in feature_columns(z2)]
    elif normalization == "unit":
        first, second = feature_columns(unit_rows(z1)), feature_columns(unit_rows(z2))
    else:
        raise ValueError(f"unknown normalization {normalization!r}")
    total = 0.0
    for k, x in enumerate(first):
        for m, y in enumerate(second):
            correlation = dot(x, y) / len(x)
            total += (correlation - 1.0) ** 2 if k == m else weight * correlation**2
    return total


def vicreg_variance(columns: Matrix, gamma: float, eps: float) -> float:
    """v(Z) = (1/D) sum_k max(0, gamma - sqrt(Var_k + eps)), Var with 1/(N-1)."""
    out = []
    for column in columns:
        centre = mean(column)
        variance = math.fsum((v - centre) * (v - centre) for v in column) / (len(column) - 1)
        out.append(max(0.0, gamma - math.sqrt(variance + eps)))
    return mean(out)


def vicreg_covariance(columns: Matrix) -> float:
    """c(Z) = (1/D) sum_{k != l} Cov_kl^2, Cov centred and with 1/(N-1)."""
    total = 0.0
    for k, x in enumerate(columns):
        for m, y in enumerate(columns):
            if k == m:
                continue
            mean_x, mean_y = mean(x), mean(y)
            covariance = 0.0
            for a, b in zip(x, y, strict=True):
                covariance += (a - mean_x) * (b - mean_y)
            total += (covariance / (len(x) - 1)) ** 2
    return total / len(columns)


def vicreg(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
    gamma: float = 1.0,
    eps: float = 1e-4,
    normalization: str = "none",
) -> float:
    """inv MSE(Z,Z') + var (v(Z)+v(Z'))/2 + cov (c(Z)+c(Z'))."""
    refuse_negatives("vicreg", negatives)
    if normalization not in ("none", "unit"):
        raise ValueError(f"unknown normalization {normalization!r}")
    unit = normalization == "unit"
    first = feature_columns(unit_rows(z1) if unit else z1)
    second = feature_columns(unit_rows(z2) if unit else z2)
    gaps = []
    for x, y in zip(first, second, strict=True):
        for a, b in zip(x, y, strict=True):
            gaps.append((a - b) * (a - b))
    spread = 0.5 * (vicreg_variance(first, gamma, eps) + vicreg_variance(second, gamma, eps))
    redundancy = vicreg_covariance(first) + vicreg_covariance(second)
    return invariance * mean(gaps) + variance * spread + covariance * redundancy
