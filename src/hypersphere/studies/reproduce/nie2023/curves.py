"""Nie et al. 2023, trained contests: the objectives by their names in the paper, and readings of a run's curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypersphere.figures.sentences import Losses
from hypersphere.studies.compare.results import Comparison, Row, Run
from hypersphere.studies.compare.statistics import Difference
from hypersphere.studies.reproduce.evidence import Scores, difference, row_of

# The paper's Table 1, in its order; the labels are those of the contest nie-objectives.
NAMES = {
    "untrained": "untrained", "infonce": "L_cl", "align_uniform": "L_a&u", "dcl": "L_dcl", "dcl_plus": "L_dcl+",
    "mpt": "L_mpt", "met": "L_met", "mat": "L_mat",
}  # fmt: skip
DECOUPLED = ("align_uniform", "dcl")
DISSIPATING = ("dcl_plus", "mpt", "met", "mat")
QUANTITIES = ("infonce", "alignment", "uniformity")
CHECKED = (
    "Values and gradients of the losses agree with the paper's formulas (nie2023/fig2, nie2023/bounds), which speaks "
    "against a fault of the implementation."
)


def find_row(comparison: Comparison, label: str) -> Row:
    """The row of an objective; a row without runs if the contest has none."""
    try:
        return row_of(comparison, label)
    except KeyError:
        return Row(label, label, {}, {}, [], [], "", {})


def points(run: Run, quantity: str, split: str) -> list[tuple[int, float]]:
    """(step, value) of one run; split: measured (held out), training, pairs (STS-B dev)."""
    return [
        (int(each["step"]), float(each[quantity]))
        for each in run.result.get(split, [])
        if each.get(quantity) is not None and math.isfinite(each[quantity])
    ]


def series(row: Row, quantity: str, split: str) -> list[tuple[int, list[float]]]:
    """Every step with the values of all runs."""
    by_step: dict[int, list[float]] = {}
    for run in row.runs:
        for step, value in points(run, quantity, split):
            by_step.setdefault(step, []).append(value)
    return sorted(by_step.items())


def rises(row: Row, quantity: str) -> dict[int, float]:
    """By seed: the last value on STS-B dev minus the smallest since training began. Zero for a curve that only falls.

    Step 0 is left out: it is the same encoder for all. Runs with fewer than two later evaluations are left out too.
    """
    by_seed = {}
    for run in row.runs:
        values = [value for step, value in points(run, quantity, "pairs") if step > 0]
        if len(values) > 1:
            by_seed[run.seed] = values[-1] - min(values)
    return by_seed


def drops(row: Row, quantity: str) -> dict[int, float]:
    """By seed: the fall of a curve on STS-B dev from step 0 to its smallest value."""
    by_seed = {}
    for run in row.runs:
        values = points(run, quantity, "pairs")
        if len(values) > 1 and values[0][0] == 0:
            by_seed[run.seed] = values[0][1] - min(value for _, value in values)
    return by_seed


def growths(row: Row, quantity: str = "gap") -> dict[int, float]:
    """By seed: the growth of a quantity on the held-out rows over the second half of training."""
    by_seed = {}
    for run in row.runs:
        values = points(run, quantity, "measured")
        later = [value for step, value in values if values and step >= values[-1][0] / 2]
        if len(later) > 1 and values[-1][0] > 0:
            by_seed[run.seed] = later[-1] - later[0]
    return by_seed


def still_falling(rows: Sequence[Row], quantity: str) -> tuple[int, int]:
    """Number of runs with their smallest value on STS-B dev at the last evaluation, and number of all runs."""
    ended = [value for row in rows for value in rises(row, quantity).values()]
    return sum(value <= 0 for value in ended), len(ended)


def kept(row: Row, quantity: str) -> dict[int, float]:
    """By seed: a quantity on the held-out rows at the step whose weights were kept and scored, or the last before."""
    by_seed = {}
    for run in row.runs:
        best = run.result.get("best_step")
        values = [value for step, value in points(run, quantity, "measured") if best is None or step <= int(best)]
        if values:
            by_seed[run.seed] = values[-1]
    return by_seed


def mean(values: Scores) -> float:
    return sum(values.values()) / len(values) if values else math.nan


def in_words(delta: Difference | None, digits: int = 2) -> str:
    """A difference with its interval.

    >>> in_words(difference({1: 3.0, 2: 3.5, 3: 4.0}, {1: 1.0, 2: 1.0, 3: 1.0}))
    '+2.50 (95 % interval +1.26 to +3.74)'
    """
    if delta is None or not delta.count:
        return "not measured"
    if delta.count < 2:
        return f"{delta.mean:+.{digits}f} (one seed)"
    return f"{delta.mean:+.{digits}f} (95 % interval {delta.low:+.{digits}f} to {delta.high:+.{digits}f})"


def compared(first: Scores, second: Scores, digits: int = 2) -> str:
    """The first minus the second, in words."""
    return in_words(difference(first, second), digits)


def losses_of(row: Row) -> Losses:
    """Curves to draw: quantity → training, dev → steps."""
    return {
        quantity: {"training": series(row, quantity, "training"), "dev": series(row, quantity, "pairs")}
        for quantity in QUANTITIES
    }


def curve_rows(row: Row, **head: Any) -> list[dict[str, Any]]:
    """The losses of a row's runs on the training batch and on STS-B dev, for a table."""
    return [
        {**head, "split": name, "quantity": quantity, "step": step, "runs": len(values),
         "mean": sum(values) / len(values), "lowest": min(values), "highest": max(values)}
        for name, split in (("training", "training"), ("STS-B dev", "pairs"))
        for quantity in QUANTITIES
        for step, values in series(row, quantity, split)
    ]  # fmt: skip
