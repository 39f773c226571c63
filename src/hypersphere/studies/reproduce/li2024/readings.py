"""Readings from a contest for the items of Li et al. 2024: scores by seed, trends along a sweep, worded differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hypersphere.evaluation.sts import spearman
from hypersphere.studies.compare.results import Row, Run
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above, difference, each_seed, measured, plus_minus, score

METRIC = "stsb_dev"


def rows_of(held: Held) -> dict[str, Row]:
    """The rows of a contest by the label of their objective; ``untrained`` is the encoder as it was given."""
    return {row.objective: row for row in held.comparison.rows}


def scores(row: Row | None, name: str) -> dict[int, float]:
    """A score on the test sets by seed; empty if there is none."""
    return {} if row is None else score(row, name)


def trained_score(row: Row | None) -> dict[int, float]:
    """STS-B dev by seed: the best of the evaluations after the first step.

    The initial weights are no candidate: a setting that spoils the encoder must not be credited with them.
    """

    def best(run: Run) -> float | None:
        history = run.result.get("history", {})
        values = [each.get(METRIC) for step, each in history.items() if int(step) > 0]
        return max((float(value) for value in values if value is not None and math.isfinite(value)), default=None)

    return {} if row is None else each_seed(row, best)


def given_weights(rows: Iterable[Row]) -> int:
    """Runs that ended with their initial weights, since no later weights scored better on STS-B dev."""
    return sum(run.state == "done" and run.result.get("best_step") == 0 for row in rows for run in row.runs)


def views(row: Row | None, trained: bool = True) -> dict[int, Mapping[str, Any]]:
    """The summary of both views by seed; ``trained``: without runs that ended with their initial weights."""
    if row is None:
        return {}
    return {
        run.seed: run.result["views"]
        for run in row.runs
        if run.result.get("views") and not (trained and run.result.get("best_step") == 0)
    }


def extreme(row: Row | None, quantity: str, pick: Callable[[Iterable[float]], float]) -> dict[int, float]:
    """The smallest or largest (``pick``) of all measurements of a run, by seed."""
    by_seed = {}
    for run in [] if row is None else row.runs:
        values = [float(each[quantity]) for each in run.result.get("measured", []) if each.get(quantity) is not None]
        if values:
            by_seed[run.seed] = pick(values)
    return by_seed


def last(row: Row | None, quantity: str) -> dict[int, float]:
    """A quantity that the monitor measured at the end of each run, by seed."""
    return {} if row is None else measured(row, quantity)


def minus(first: Scores, second: Scores) -> dict[int, float]:
    """The first minus the second on their common seeds."""
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def constant(values: Scores, bound: float) -> dict[int, float]:
    return dict.fromkeys(values, bound)


def beyond(values: Scores, bound: float) -> bool | None:
    """Whether the mean is above a number that does not vary with the seed."""
    return above(values, constant(values, bound))


def below(values: Scores, bound: float) -> bool | None:
    """Whether the mean is below a number that does not vary with the seed."""
    return above(constant(values, bound), values)


def trend(points: Sequence[Scores]) -> dict[int, float]:
    """Rank correlation of the place in a sweep with the value, for every seed that has all points.

    >>> trend([{1: 3.0}, {1: 4.0}, {1: 9.0, 2: 1.0}])
    {1: 1.0}
    """
    seeds = set.intersection(*(set(each) for each in points)) if points else set()
    correlations = {seed: spearman(range(len(points)), [each[seed] for each in points]) for seed in sorted(seeds)}
    return {seed: 0.0 if math.isnan(value) else value for seed, value in correlations.items()}


def change(first: Scores, second: Scores, digits: int = 2) -> str:
    """The first minus the second with its 95 % interval, in words.

    >>> change({1: 3.0, 2: 3.2, 3: 3.1}, {1: 1.0, 2: 1.1, 3: 1.2}, 1)
    '+2.0 [1.8, 2.2]'
    """
    delta = difference(first, second)
    if delta is None:
        return "not measured"
    ends = f" [{delta.low:.{digits}f}, {delta.high:.{digits}f}]" if delta.count > 1 else " (one seed)"
    return f"{delta.mean:+.{digits}f}{ends}"


def with_interval(values: Scores, digits: int = 2) -> str:
    """Mean and half its interval, or a note that there is none."""
    return plus_minus(values, digits) if values else "not measured"


def mean(values: Scores) -> float | None:
    return sum(values.values()) / len(values) if values else None


def filled(**tables: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The tables that have a row; the tables of a contest that has just begun have none."""
    return {name: rows for name, rows in tables.items() if rows}


def blame(held: Held, evidence: str, implementation: str) -> str:
    """The fault where a clause does not hold: the claim at the published scale, scale or claim below it."""
    checked = f"Not the implementation: {implementation}."
    if held.scale == "full":
        return f"The claim, at the published scale: {evidence} {checked}"
    return f"Scale or claim, which runs of this size cannot tell apart: {evidence} {checked}"
