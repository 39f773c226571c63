"""Turns the runs of a contest into numbers with intervals, and the numbers into verdicts on claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hypersphere.studies.compare import statistics
from hypersphere.studies.compare.results import Comparison, Row, Run
from hypersphere.studies.compare.statistics import Difference, Summary

Scores = Mapping[int, float]  # by seed


def row_of(comparison: Comparison, objective: str, **point: Any) -> Row:
    """The row of an objective by its label; in a grid, at one point (``optimizer__lr`` for optimizer.lr)."""
    wanted = {key.replace("__", "."): value for key, value in point.items()}
    for row in comparison.rows:
        if row.objective == objective and all(row.point.get(key) == value for key, value in wanted.items()):
            return row
    raise KeyError(f"the contest has no row {objective} {wanted}")


def score(row: Row, name: str, failed: float | None = None) -> dict[int, float]:
    """A score on the test set by seed. Runs that ended without one (diverged, for example) get ``failed``."""

    def read(run: Run) -> float | None:
        value = run.result.get("scores", {}).get(name)
        if value is not None and math.isfinite(value):
            return float(value)
        return failed if run.state in ("done", "failed") else None

    return {run.seed: value for run in row.runs if (value := read(run)) is not None}


def measured(row: Row, quantity: str, last: bool = True) -> dict[int, float]:
    """A quantity that the monitor measured at the end of each run, or at its start, by seed."""
    by_seed = {}
    for run in row.runs:
        values = [each[quantity] for each in run.result.get("measured", []) if each.get(quantity) is not None]
        if values:
            by_seed[run.seed] = float(values[-1 if last else 0])
    return by_seed


def curve(row: Row, quantity: str, split: str = "measured") -> list[tuple[int, float]]:
    """Mean over seeds of a quantity at each step; split: measured (held out), training, pairs (STS-B dev)."""
    by_step: dict[int, list[float]] = {}
    for run in row.runs:
        for each in run.result.get(split, []):
            if each.get(quantity) is not None:
                by_step.setdefault(int(each["step"]), []).append(float(each[quantity]))
    return [(step, sum(values) / len(values)) for step, values in sorted(by_step.items())]


def history(row: Row, name: str) -> list[tuple[int, float]]:
    """Mean over seeds of a validation score at each step."""
    by_step: dict[int, list[float]] = {}
    for run in row.runs:
        for step, scores in run.result.get("history", {}).items():
            if scores.get(name) is not None:
                by_step.setdefault(int(step), []).append(float(scores[name]))
    return [(step, sum(values) / len(values)) for step, values in sorted(by_step.items())]


def summary(values: Scores) -> Summary | None:
    return statistics.summarise(list(values.values())) if values else None


def difference(first: Scores, second: Scores) -> Difference | None:
    """The first minus the second, paired by seed, with its 95 % interval; None without a common seed."""
    if not set(first) & set(second):
        return None
    return statistics.differences({"first": dict(first), "second": dict(second)}, [("first", "second")])[0]


def above(first: Scores, second: Scores, by: float = 0.0) -> bool | None:
    """Whether the first is above the second by more than ``by``. None if the 95 % interval of the paired difference
    contains that value, or there are fewer than two common seeds.

    >>> above({1: 3.0, 2: 3.2, 3: 3.1}, {1: 1.0, 2: 1.1, 3: 1.2}), above({1: 3.0, 2: 1.0}, {1: 2.0, 2: 2.0})
    (True, None)
    """
    delta = difference(first, second)
    if delta is None or delta.count < 2:
        return None
    return True if delta.low > by else False if delta.high < by else None


def holds_for_all(parts: Sequence[bool | None]) -> bool | None:
    """A clause about several parts: false if one is false, else None if one is undecided, else true; None if empty."""
    return False if False in parts else None if None in parts or not parts else True


def plus_minus(values: Scores, digits: int = 2) -> str:
    """Mean and half the width of its 95 % interval, in words.

    >>> plus_minus({1: 1.0, 2: 1.2, 3: 1.4})
    '1.20 ± 0.50'
    """
    estimate = summary(values)
    if estimate is None:
        return "–"
    half = f" ± {(estimate.high - estimate.low) / 2:.{digits}f}" if estimate.count > 1 else ""
    return f"{estimate.mean:.{digits}f}{half}"


def sets_in_words(rows: Iterable[Row], names: Sequence[str], kind: str) -> str:
    """Names the evaluated sets: "the seven STS sets", "2 of the seven STS sets (STS12, SICK-R)"."""
    rows = list(rows)
    known = [name for name in names if any(score(row, name) for row in rows)]
    if len(known) == len(names):
        return f"the seven {kind} sets"
    return f"{len(known)} of the seven {kind} sets ({', '.join(known)})"


def each_seed(row: Row, read: Callable[[Run], float | None]) -> dict[int, float]:
    """A chosen number of each finished run, by seed."""
    return {run.seed: value for run in row.runs if run.state == "done" and (value := read(run)) is not None}
