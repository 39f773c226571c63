"""Do measured dissipation, weight and ratio predict how good a loss is?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from hypersphere.figures.prediction import draw_predictions
from hypersphere.studies.compare.results import Row, Run
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import each_seed
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.own.prediction import Array, Prediction, alike, gain, predict

WHILE_TRAINING = ("with_gradient", "hardest_weight", "ratio")  # means over the measurements after the first step
AT_THE_END = ("gap", "effective_rank", "alignment", "uniformity")
ANATOMY = ("with_gradient", "hardest_weight", "ratio", "gap", "effective_rank")
PLACES = ("alignment", "uniformity")
WORDS = {"with_gradient": "share of active anchors", "hardest_weight": "weight of the hardest", "ratio": "ratio",
         "gap": "final gap", "effective_rank": "effective rank", "alignment": "alignment",
         "uniformity": "uniformity"}  # fmt: skip
SETS = {  # the predictors of the quality
    "measured anatomy": ANATOMY,
    "alignment and uniformity": PLACES,
    "both": (*ANATOMY, *PLACES),
    **{WORDS[name]: (name,) for name in (*ANATOMY, *PLACES)},
}
PARTS = (
    "five measured numbers predict an unseen objective better than the mean of all",
    "they predict it better than alignment and uniformity alone",
    "composed losses predict the registered objectives better than the mean of all",
)
MORE, ADDED = "anatomy minus alignment and uniformity", "both minus alignment and uniformity"
FEWEST = 8  # objectives for a regression
COMPOSED = "paradigm"
RATIOS = (0.01, 100.0)  # a ratio outside counts as the nearer end


@dataclass(frozen=True)
class Point:
    """An objective: its test score and its measurements, means over fresh seeds."""

    name: str
    quality: float
    numbers: dict[str, float]

    @property
    def composed(self) -> bool:
        return self.name.split()[0] == COMPOSED


@dataclass(frozen=True)
class Analysis:
    """One contest: its objectives, and how well each set of numbers predicts unseen objectives.

    more, added: how much more than alignment and uniformity the anatomy explains, and both together.
    """

    points: list[Point]
    left_out: list[str]
    predictions: dict[str, Prediction] = field(default_factory=dict)
    more: tuple[float, float, float] | None = None
    added: tuple[float, float, float] | None = None
    transfer: Prediction | None = None

    @property
    def clauses(self) -> list[bool | None]:
        """The verdict on each of PARTS, if its interval decides it."""
        anatomy = self.predictions.get("measured anatomy")
        return [
            None if interval is None else True if interval[0] > 0 else False if interval[1] < 0 else None
            for interval in (
                None if anatomy is None else (anatomy.low, anatomy.high),
                None if self.more is None else self.more[1:],
                None if self.transfer is None else (self.transfer.low, self.transfer.high),
            )
        ]


def factorial(held: Mapping[str, Held]) -> Finding:
    """Regresses held-out quality on measured anatomy, and predicts objectives that the regression has not seen."""
    analyses = {name.partition("-")[2]: analyse(each.comparison.contestants) for name, each in held.items()}
    clauses = {
        f"{data}: {part}": holds
        for data, each in analyses.items()
        for part, holds in zip(PARTS, each.clauses, strict=True)
    }
    known = {data: each for data, each in analyses.items() if each.predictions}
    return Finding(
        claim="Li et al. 2024: every effective loss is dissipation × weight × ratio. Nie et al. 2023: alignment and "
        "uniformity alone do not tell how good a representation is. Together: the measured anatomy should predict the "
        "quality of a loss that was not seen, and better than alignment and uniformity do.",
        measured=" ".join(_in_words(data, each) for data, each in analyses.items()),
        clauses=clauses,
        data=_tables(analyses),
        figures={f"prediction-{data}": _figure(data, each) for data, each in known.items()},
        published="no paper asked",
        here="; ".join(
            f"{data}: anatomy {spread(each.predictions['measured anatomy'])}, alignment and uniformity "
            f"{spread(each.predictions['alignment and uniformity'])}"
            for data, each in known.items()
        )
        or "too few objectives",
        fault="Our own question at a small scale: whether it is the scale or the idea, only the full scale can tell."
        if False in clauses.values()
        else "",
    )


def analyse(rows: Sequence[Row]) -> Analysis:
    """The regressions of one contest. Each leaves out an objective with all its seeds and all its twins."""
    made = {row.name: _point(row) for row in rows}
    points = [point for point in made.values() if point is not None]
    left_out = [name for name, point in made.items() if point is None]
    groups = alike(_features(points, SETS["both"])) if points else []
    if len(groups) < FEWEST:
        return Analysis(points, left_out)
    quality = np.array([point.quality for point in points])
    predictions = {words: predict(_features(points, names), quality, groups) for words, names in SETS.items()}
    more = gain(predictions["measured anatomy"], predictions["alignment and uniformity"], quality)
    added = gain(predictions["both"], predictions["alignment and uniformity"], quality)
    registered = [index for index, point in enumerate(points) if not point.composed]
    enough = len(registered) >= FEWEST and len(points) - len(registered) >= FEWEST
    transfer = predict(_features(points, ANATOMY), quality, [registered]) if enough else None
    return Analysis(points, left_out, predictions, more, added, transfer)


def _point(row: Row) -> Point | None:
    """None without a test score or if a number is missing: an objective on features has no ratio, for example."""
    numbers = {}
    for name in (*WHILE_TRAINING, *AT_THE_END):
        values = list(each_seed(row, partial(_number, name=name)).values())
        if not values:
            return None
        numbers[name] = fmean(values)
    return None if row.summary is None else Point(row.name, row.summary.mean, numbers)


def _number(run: Run, name: str) -> float | None:
    """The monitor's measurements of a run on held-out rows, during training or at its end."""
    values = [each[name] for each in run.result.get("measured", []) if each["step"] > 0 and each.get(name) is not None]
    values = [float(value) for value in values if math.isfinite(value)]
    if not values:
        return None
    return fmean(values) if name in WHILE_TRAINING else values[-1]


def _features(points: Sequence[Point], names: Sequence[str]) -> Array:
    """(N, F). A ratio enters as the logarithm of its size, for two reasons: half and double are equally far from one,
    and it jumps from large positive to large negative numbers where the pull of the negatives sums to zero."""
    values = [[_scaled(name, point.numbers[name]) for name in names] for point in points]
    return np.array(values, dtype=np.float64)


def _scaled(name: str, value: float) -> float:
    return math.log(min(max(abs(value), RATIOS[0]), RATIOS[1])) if name == "ratio" else value


def spread(prediction: Prediction) -> str:
    return f"{prediction.explained:.2f} ({prediction.low:.2f} to {prediction.high:.2f})"


def _figure(data: str, analysis: Analysis) -> Any:
    shown = {words: analysis.predictions[words] for words in ("measured anatomy", "alignment and uniformity")}
    panels = {f"{data}, {words}: {spread(each)}": each.predicted.tolist() for words, each in shown.items()}
    return draw_predictions(
        [point.quality for point in analysis.points], panels, [point.composed for point in analysis.points]
    )


def _tables(analyses: Mapping[str, Analysis]) -> dict[str, list[dict[str, Any]]]:
    """A line for each objective, and one for each set of numbers."""
    objectives, predictors = [], []
    for data, each in analyses.items():
        for index, point in enumerate(each.points):
            predicted = {
                f"from {words}": each.predictions[words].predicted[index] if each.predictions else None
                for words in ("measured anatomy", "alignment and uniformity")
            }
            objectives.append(
                {"data": data, "objective": point.name, "quality": point.quality, **point.numbers, **predicted}
            )
        lines = dict(each.predictions)
        if each.transfer is not None:
            lines["measured anatomy, composed to registered"] = each.transfer
        predictors += [
            {"data": data, "numbers": words, "explained": line.explained, "low": line.low, "high": line.high}
            for words, line in lines.items()
        ]
        for words, difference in ((MORE, each.more), (ADDED, each.added)):
            if difference is not None:
                names = ("explained", "low", "high")
                predictors.append({"data": data, "numbers": words, **dict(zip(names, difference, strict=True))})
    return {name: rows for name, rows in {"objectives": objectives, "predictors": predictors}.items() if rows}


def _in_words(data: str, analysis: Analysis) -> str:
    composed = sum(point.composed for point in analysis.points)
    if analysis.more is None:
        return (
            f"{data.capitalize()}: only {len(analysis.points)} objectives have all numbers, or too many have the same."
        )
    anatomy, places = (analysis.predictions[words] for words in ("measured anatomy", "alignment and uniformity"))
    words = (
        f"{data.capitalize()}: {composed} composed losses and {len(analysis.points) - composed} registered objectives, "
        f"each with its own learning rate. Leaving one out, {', '.join(WORDS[name] for name in ANATOMY)} explain "
        f"{spread(anatomy)} of the variance of the test score, alignment and uniformity {spread(places)}: "
        f"{analysis.more[0]:+.2f} ({analysis.more[1]:+.2f} to {analysis.more[2]:+.2f}) more."
    )
    if analysis.transfer is not None:
        words += (
            f" Fitted on the composed losses alone, the anatomy explains {spread(analysis.transfer)} among "
            "the registered."
        )
    if analysis.left_out:
        words += f" Left out, without a score or a number that has no meaning for them: {', '.join(analysis.left_out)}."
    return words
