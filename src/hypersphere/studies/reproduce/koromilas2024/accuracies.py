"""Accuracies of a contest by seed: at each setting, their mean, their worst and their spread over settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hypersphere.figures.accuracy import Interval
from hypersphere.report import markdown_table
from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.results import Comparison, Row
from hypersphere.studies.compare.statistics import LEVEL
from hypersphere.studies.reproduce.evidence import Scores, above, difference, plus_minus, score, summary

ABSTRACT = (
    'The abstract says: "improved downstream performance and robustness across combinations of different batch sizes '
    'and hyperparameters and reduced dimensionality collapse, on several computer vision datasets".'
)
NO_NUMBERS = "Only the abstract and the README of the authors' repository were at hand; both have no numbers."

DECIDING = "linear_1"  # as in the authors' code base: a linear probe of the frozen encoder
LABELS = {
    "linear_1": "linear probe, all labels",
    "linear_0.1": "linear probe, 10 % of the labels",
    "knn": "nearest neighbours",
}
NAMES = {"ntxent": "SimCLR", "dcl": "DCL", "dhel": "DHEL", "kcl": "KCL"}
BASELINES, CHALLENGERS = ("ntxent", "dcl"), ("dhel", "kcl")
CHANCE = 10.0  # per cent, for ten classes; a failed run counts as this

PAIRS = tuple((new, old) for new in CHALLENGERS for old in BASELINES)
Decisions = dict[str, bool | None]
Key = TypeVar("Key")  # a setting: a batch size, or a temperature with a batch size


def family(label: str) -> str:
    """The objective of a label without its settings."""
    return label.partition(" ")[0]


def settings(label: str) -> dict[str, str]:
    """The settings in an objective's label.

    >>> settings("dcl negatives=both temperature=0.5")
    {'negatives': 'both', 'temperature': '0.5'}
    """
    return dict(word.split("=", 1) for word in label.split(" ")[1:] if "=" in word)


def accuracies(row: Row, name: str) -> dict[int, float]:
    """A score by seed. A failed run counts as chance; a finished run without the score is left out."""
    failed = {run.seed: CHANCE for run in row.runs if run.state == "failed"}
    return {**score(row, name), **failed}


def untrained(comparison: Comparison, name: str) -> dict[int, float]:
    return next((score(row, name) for row in comparison.rows if row.name == UNTRAINED), {})


# --- over several settings, seed by seed


def mean_over(points: Sequence[Scores]) -> dict[int, float]:
    """The mean over settings, for the seeds that have all of them.

    >>> mean_over([{1: 2.0, 2: 5.0}, {1: 4.0}])
    {1: 3.0}
    """
    return {seed: sum(values) / len(values) for seed, values in _by_seed(points).items()}


def worst_over(points: Sequence[Scores]) -> dict[int, float]:
    return {seed: min(values) for seed, values in _by_seed(points).items()}


def spread_over(points: Sequence[Scores]) -> dict[int, float]:
    """Best minus worst over settings, for the seeds that have all of them.

    >>> spread_over([{1: 2.0, 2: 5.0}, {1: 4.0, 2: 4.5}])
    {1: 2.0, 2: 0.5}
    """
    return {seed: max(values) - min(values) for seed, values in _by_seed(points).items()}


def best_of(points: Mapping[Key, Scores]) -> Key | None:
    """The setting with the highest mean; None without any score."""
    means = {key: estimate.mean for key, values in points.items() if (estimate := summary(values)) is not None}
    return max(means, key=lambda key: means[key]) if means else None


def worst_of(points: Mapping[Key, Scores]) -> Key | None:
    return best_of({key: {seed: -value for seed, value in values.items()} for key, values in points.items()})


def spread_of_means(points: Sequence[Scores]) -> float | None:
    """Best minus worst mean over seeds: noise widens it less than the spread of single runs."""
    means = [estimate.mean for each in points if (estimate := summary(each)) is not None]
    return max(means) - min(means) if points and len(means) == len(points) else None


def _by_seed(points: Sequence[Scores]) -> dict[int, list[float]]:
    common = set.intersection(*(set(each) for each in points)) if points else set()
    return {seed: [each[seed] for each in points] for seed in sorted(common)}


# --- rows of tables, words, parts of figures


def described(values: Scores) -> dict[str, Any]:
    """Mean, 95 % interval and number of seeds, for a row of a table."""
    estimate = summary(values)
    if estimate is None:
        return {"mean": None, "low": None, "high": None, "seeds": 0}
    single = estimate.count < 2
    low, high = (None, None) if single else (estimate.low, estimate.high)
    return {"mean": estimate.mean, "low": low, "high": high, "seeds": estimate.count}


def contrasted(first: Scores, second: Scores) -> dict[str, Any]:
    """The first minus the second, paired by seed, for a row of a table."""
    delta = difference(first, second)
    if delta is None:
        return {"difference": None, "low": None, "high": None, "seeds": 0}
    single = delta.count < 2
    low, high = (None, None) if single else (delta.low, delta.high)
    return {"difference": delta.mean, "low": low, "high": high, "seeds": delta.count}


def signed(first: Scores, second: Scores, digits: int = 2) -> str:
    """The paired difference in words.

    >>> signed({1: 1.0, 2: 1.2, 3: 1.4}, {1: 0.0, 2: 0.0, 3: 0.0}), signed({1: 1.0}, {1: 2.0}), signed({}, {})
    ('+1.20 (+0.70 to +1.70)', '-1.00', 'not measured')
    """
    delta = difference(first, second)
    if delta is None:
        return "not measured"
    interval = f" ({delta.low:+.{digits}f} to {delta.high:+.{digits}f})" if delta.count > 1 else ""
    return f"{delta.mean:+.{digits}f}{interval}"


def means_table(columns: Sequence[str], rows: Mapping[str, Sequence[Scores]], digits: Sequence[int] = ()) -> str:
    """A line for each objective: mean ± half the width of the 95 % interval over seeds."""
    places = digits or (2,) * len(columns)
    cells = [
        [name, *(plus_minus(values, count) for values, count in zip(each, places, strict=True))]
        for name, each in rows.items()
    ]
    head = "Mean ± half the 95 % interval over seeds:"
    return f"{head}\n\n{markdown_table(['objective', *columns], cells)}"


def short(values: Mapping[str, Scores], digits: int = 1) -> str:
    """The means alone, for a list."""
    means = {name: estimate.mean for name, each in values.items() if (estimate := summary(each)) is not None}
    return ", ".join(f"{NAMES.get(name, name)} {mean:.{digits}f}" for name, mean in means.items()) or "not measured"


def differences(values: Mapping[str, Scores], digits: int = 2) -> str:
    """DHEL and KCL minus SimCLR and DCL, paired by seed, in words."""
    said = [f"{NAMES[new]} − {NAMES[old]} {signed(values[new], values[old], digits)}" for new, old in PAIRS]
    return ", ".join(said)


def ends(values: Scores) -> tuple[float, float, float]:
    """Mean and 95 % interval, for a point of a curve."""
    estimate = summary(values)
    return (estimate.mean, estimate.low, estimate.high) if estimate is not None else (float("nan"),) * 3


def interval(label: str, values: Scores) -> Interval:
    _, low, high = ends(values)
    return Interval(label, list(values.values()), low, high)


def counted(decisions: Decisions) -> str:
    """How many clauses hold, in words.

    >>> counted({"a": True, "b": False, "c": None})
    '1 hold, 1 do not, 1 undecided'
    """
    given = list(decisions.values())
    return f"{given.count(True)} hold, {given.count(False)} do not, {given.count(None)} undecided"


def by_chance(decisions: Decisions) -> str:
    """The probability that some clause fails by chance if each is decided at 95 %, as if they were independent."""
    count = len(decisions)
    share = 1 - (1 - LEVEL / 2) ** count
    return (
        f"Each of the {count} clauses is decided at 95 %: were there no differences at all, one or more would fail by "
        f"chance in {100 * share:.0f} % of such contests."
    )


def trained_well(values: Mapping[str, Scores], start: Scores) -> str:
    """Whether the challengers learn at all: their gain over the untrained encoder, as evidence on implementation."""
    gains = ", ".join(f"{NAMES[name]} {signed(values.get(name, {}), start)}" for name in CHALLENGERS)
    learns = [above(values.get(name, {}), start) for name in CHALLENGERS]
    if all(learns):
        return (
            f"Implementation: not suspected. The new losses learn (gain over the untrained encoder: {gains}), and "
            "koromilas2024/minimisers compares their values with closed forms."
        )
    return f"Implementation or settings: not cleared by these runs (gain over the untrained encoder: {gains})."
