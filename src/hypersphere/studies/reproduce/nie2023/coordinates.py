"""Alignment, uniformity and score of checkpoints on STS-B dev, and how much of the score the other two explain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersphere.studies.compare.results import Comparison, Run
from hypersphere.studies.compare.statistics import LEVEL, normal_cdf, student_quantile

METRIC = "stsb_dev"
RADIUS = 0.25  # standard deviations: checkpoints that are closer have the same coordinates
FEWEST_OBJECTIVES = 3
RESAMPLES = 10_000

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Checkpoint:
    """A point of the scatter: one evaluation of one run on STS-B dev."""

    objective: str
    cell: str
    stage: str
    seed: int
    step: int
    alignment: float
    uniformity: float
    score: float


@dataclass(frozen=True)
class Explained:
    """R² of the score of objectives unseen by the regression, with its 95 % interval."""

    terms: str
    r2: float
    low: float
    high: float


def checkpoints_of(comparison: Comparison) -> list[Checkpoint]:
    """Every evaluation of every run, tuning included; the initial encoder counts once, as ``untrained``."""
    checkpoints: dict[str, Checkpoint] = {}
    for row in comparison.rows:
        for run in (*row.tuning, *row.runs):
            for each in _evaluations(row.objective, run):
                key = f"{each.cell} {each.step}" if each.step else "untrained"
                checkpoints.setdefault(key, each)
    return list(checkpoints.values())


def _evaluations(label: str, run: Run) -> list[Checkpoint]:
    history = run.result.get("history", {})
    checkpoints = []
    for each in run.result.get("pairs", []):
        numbers = [each.get("alignment"), each.get("uniformity"), history.get(str(each["step"]), {}).get(METRIC)]
        if all(value is not None and math.isfinite(value) for value in numbers):
            name = label if each["step"] else "untrained"
            checkpoints.append(Checkpoint(name, run.cell, run.stage, run.seed, int(each["step"]), *map(float, numbers)))
    return checkpoints


def explained(spots: Sequence[Checkpoint], squares: bool) -> Explained | None:
    """Predicts the scores of each objective from all others: 1 - Σ(error²) / Σ(error² of the others' mean score).

    Regression on alignment and uniformity, with ``squares`` on their squares and product too; a prediction is never
    outside the scores it was fitted to. The interval is an expanded percentile bootstrap over objectives. None for
    fewer than three objectives, or too few checkpoints.
    """
    objectives = sorted({each.objective for each in spots})
    x, y = _terms(spots, squares), np.array([each.score for each in spots])
    errors, totals = [], []
    for name in objectives if len(objectives) >= FEWEST_OBJECTIVES else []:
        out = np.array([each.objective == name for each in spots])
        if (~out).sum() <= x.shape[1]:
            return None
        weights = np.linalg.lstsq(x[~out], y[~out], rcond=None)[0]
        predicted = np.clip(x[out] @ weights, y[~out].min(), y[~out].max())
        errors.append(float(((y[out] - predicted) ** 2).sum()))
        totals.append(float(((y[out] - y[~out].mean()) ** 2).sum()))
    if not sum(totals) > 0:
        return None
    low, high = _interval(np.array(errors), np.array(totals))
    return Explained("squares and product" if squares else "linear", 1 - sum(errors) / sum(totals), low, high)


def _terms(spots: Sequence[Checkpoint], squares: bool) -> Matrix:
    """(checkpoints, terms): 1, a, u and with squares a², u², a u, of standardised coordinates."""
    a, u = _coordinates(spots).T
    columns = [np.ones_like(a), a, u, *([a * a, u * u, a * u] if squares else [])]
    return np.stack(columns, axis=1)


def _coordinates(spots: Sequence[Checkpoint]) -> Matrix:
    """Alignment and uniformity (checkpoints, 2), each with mean 0 and deviation 1."""
    raw = np.array([(each.alignment, each.uniformity) for each in spots], dtype=np.float64).reshape(-1, 2)
    if not len(raw):
        return raw
    scale = raw.std(axis=0)
    return np.asarray((raw - raw.mean(axis=0)) / np.where(scale > 0, scale, 1.0), dtype=np.float64)


def _interval(errors: Matrix, totals: Matrix) -> tuple[float, float]:
    n = len(errors)
    drawn = np.random.default_rng(0).integers(0, n, size=(RESAMPLES, n))
    below = totals[drawn].sum(axis=1)
    ratios = 1 - errors[drawn].sum(axis=1) / np.where(below > 0, below, np.nan)
    tail = normal_cdf(-math.sqrt(n / (n - 1)) * student_quantile(1 - LEVEL / 2, n - 1))
    low, high = np.nanquantile(ratios, [tail, 1 - tail])
    return float(low), float(high)


def neighbours(spots: Sequence[Checkpoint]) -> tuple[dict[int, float], dict[int, float]]:
    """By seed, mean difference in score between checkpoints of two objectives with the same coordinates, and between
    two seeds of one objective at one step. Only runs with fresh seeds enter."""
    where = _coordinates(spots)
    tests = [(index, each) for index, each in enumerate(spots) if each.stage == "test"]
    across: dict[int, list[float]] = {}
    within: dict[int, list[float]] = {}
    for k, (i, one) in enumerate(tests):
        for j, other in tests[k + 1 :]:
            apart = abs(one.score - other.score)
            if one.objective == other.objective and one.step == other.step:
                for seed in (one.seed, other.seed):
                    within.setdefault(seed, []).append(apart)
            near = float(np.linalg.norm(where[i] - where[j])) <= RADIUS
            if near and one.objective != other.objective and one.seed == other.seed:
                across.setdefault(one.seed, []).append(apart)
    return _means(across), _means(within)


def _means(by_seed: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {seed: sum(values) / len(values) for seed, values in by_seed.items()}
