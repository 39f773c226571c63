"""How well some measured numbers predict the quality of an objective that the regression has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
RIDGE = 1.0  # on standardised features
RESAMPLES = 2000
LEVEL = 0.05


@dataclass(frozen=True)
class Prediction:
    """What was predicted for every objective by a regression on the others, and how much of the variance that explains.

    explained: 1 - Σ (y - ŷ)² / Σ (y - ȳ)², ŷ and ȳ from the other objectives: 0 is the baseline "mean of all".
    low, high: 95 % interval by resampling objectives.
    """

    predicted: Array
    explained: float
    low: float
    high: float


def predict(features: Array, quality: Array, unseen: Sequence[Sequence[int]] | None = None) -> Prediction:
    """Predicts groups of objectives from all others; without ``unseen`` each objective is a group of its own.

    features: (N, F) measured numbers; their squares take part, since more of a thing may be better only up to a point.
    """
    groups = [[row] for row in range(len(quality))] if unseen is None else [list(group) for group in unseen]
    predicted, means = np.full(len(quality), np.nan), np.full(len(quality), np.nan)
    for group in groups:
        known = [row for row in range(len(quality)) if row not in set(group)]
        predicted[group] = _fit(features[known], quality[known], features[group])
        means[group] = quality[known].mean()
    tested = np.array([row for group in groups for row in group])
    errors, spread = (quality - predicted)[tested] ** 2, (quality - means)[tested] ** 2
    low, high = _interval(lambda rows: float(1 - errors[rows].sum() / spread[rows].sum()), len(tested))
    return Prediction(predicted, float(1 - errors.sum() / spread.sum()), low, high)


def gain(first: Prediction, second: Prediction, quality: Array) -> tuple[float, float, float]:
    """How much more the first explains than the second: the difference and its 95 % interval, over the same rows."""
    rows = np.flatnonzero(np.isfinite(first.predicted) & np.isfinite(second.predicted))
    errors = [(quality - each.predicted)[rows] ** 2 for each in (first, second)]
    spread = (quality[rows] - quality.mean()) ** 2

    def of(chosen: Rows) -> float:
        return float((errors[1][chosen].sum() - errors[0][chosen].sum()) / spread[chosen].sum())

    low, high = _interval(of, len(rows))
    return of(np.arange(len(rows), dtype=np.int64)), low, high


def _fit(features: Array, quality: Array, wanted: Array) -> Array:
    """Ridge regression on standardised features and their squares."""
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation = np.where(deviation > 1e-12, deviation, 1.0)
    x, new = ((each - mean) / deviation for each in (features, wanted))
    x, new = (np.hstack([each, each**2 - 1]) for each in (x, new))
    new = np.clip(new, x.min(axis=0), x.max(axis=0))  # no further than what was seen
    centre = quality.mean()
    weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ (quality - centre))
    return np.asarray(centre + new @ weights)


def _interval(statistic: Callable[[Rows], float], count: int) -> tuple[float, float]:
    draw = np.random.default_rng(0)
    values = [statistic(draw.integers(0, count, count)) for _ in range(RESAMPLES)]
    low, high = np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)
