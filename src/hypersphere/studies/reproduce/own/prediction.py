"""How well measured numbers predict the quality of an objective unseen by the regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0)  # penalties to choose from, on standardised features
RESAMPLES = 2000
LEVEL = 0.05


@dataclass(frozen=True)
class Prediction:
    """The prediction for every objective by a regression on the others, and the share of the variance it explains.

    predicted, means: (N,) ŷ and ȳ, both from the objectives in the regression; NaN where nothing was
        predicted.
    explained: 1 - Σ (y - ŷ)² / Σ (y - ȳ)²: 0 is the baseline "mean of all".
    low, high: 95 % interval; objectives are resampled, predictions stay fixed.
    """

    predicted: Array
    means: Array
    explained: float
    low: float
    high: float


def predict(features: Array, quality: Array, unseen: Sequence[Sequence[int]] | None = None) -> Prediction:
    """Predicts groups of objectives from all others; without ``unseen`` each objective is a group of its own.

    features: (N, F) measured numbers. Their squares are added, since more may be better only up to a point.
    """
    groups = [[row] for row in range(len(quality))] if unseen is None else [list(group) for group in unseen]
    predicted, means = np.full(len(quality), np.nan), np.full(len(quality), np.nan)
    for group in groups:
        known = np.setdiff1d(np.arange(len(quality)), group)
        predicted[group] = _fit(features[known], quality[known], features[group])
        means[group] = quality[known].mean()
    tested = np.array([row for group in groups for row in group])
    errors, spread = (quality - predicted)[tested] ** 2, (quality - means)[tested] ** 2
    low, high = _interval(lambda rows: float(1 - errors[rows].sum() / spread[rows].sum()), len(tested))
    return Prediction(predicted, means, float(1 - errors.sum() / spread.sum()), low, high)


def gain(first: Prediction, second: Prediction, quality: Array) -> tuple[float, float, float]:
    """How much more the first explains than the second of the same objectives: the difference and its 95 % interval."""
    rows = np.flatnonzero(np.isfinite(first.predicted) & np.isfinite(second.predicted))
    errors = [(quality - each.predicted)[rows] ** 2 for each in (first, second)]
    spread = (quality - first.means)[rows] ** 2

    def of(chosen: Rows) -> float:
        return float((errors[1][chosen].sum() - errors[0][chosen].sum()) / spread[chosen].sum())

    low, high = _interval(of, len(rows))
    return of(np.arange(len(rows), dtype=np.int64)), low, high


def alike(features: Array) -> list[list[int]]:
    """Groups of rows with the same numbers: an objective under two names is left out under both.

    >>> alike(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    [[0, 2], [1]]
    """
    groups: dict[tuple[float, ...], list[int]] = {}
    for row, values in enumerate(features):
        groups.setdefault(tuple(values), []).append(row)
    return list(groups.values())


def _fit(features: Array, quality: Array, wanted: Array) -> Array:
    """Ridge regression on standardised features and their squares. The ``wanted`` objectives enter neither the
    standardisation nor the choice of the penalty, which leaves out one of the others at a time."""
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation = np.where(deviation > 1e-12, deviation, 1.0)
    x, new = ((each - mean) / deviation for each in (features, wanted))
    x, new = (np.hstack([each, each**2]) for each in (x, new))
    new = np.clip(new, x.min(axis=0), x.max(axis=0))  # no extrapolation beyond the fitted range
    shift, centre = x.mean(axis=0), quality.mean()
    left, singular, right = np.linalg.svd(x - shift, full_matrices=False)
    along = left.T @ (quality - centre)

    def error(ridge: float) -> float:
        """Mean squared error with one objective left out, in closed form."""
        shrunk = singular**2 / (singular**2 + ridge)
        leverage = (left**2) @ shrunk + 1 / len(quality)
        return float(np.mean(((quality - centre - left @ (shrunk * along)) / (1 - leverage)) ** 2))

    ridge = min(RIDGES, key=error)
    weights = right.T @ (singular / (singular**2 + ridge) * along)
    return np.asarray(centre + (new - shift) @ weights)


def _interval(statistic: Callable[[Rows], float], count: int) -> tuple[float, float]:
    draw = np.random.default_rng(0)
    values = [statistic(draw.integers(0, count, count)) for _ in range(RESAMPLES)]
    low, high = np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)
