"""Do measured dissipation, weight and ratio predict how good a loss is?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersphere.figures.prediction import draw_predictions
from hypersphere.studies.compare.results import Row
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import measured, summary
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.own.prediction import Prediction, gain, predict

ANATOMY = ("with_gradient", "hardest_weight", "ratio", "gap", "effective_rank")
PLACES = ("alignment", "uniformity")
WORDS = {"with_gradient": "share of active anchors", "hardest_weight": "weight of the hardest", "ratio": "ratio",
         "gap": "final gap", "effective_rank": "effective rank", "alignment": "alignment",
         "uniformity": "uniformity"}  # fmt: skip
FEWEST = 8  # objectives for a regression
COMPOSED = "paradigm"


@dataclass(frozen=True)
class Point:
    """An objective: its quality with fresh seeds, and what was measured of it at the end of training."""

    name: str
    quality: float
    numbers: dict[str, float]

    @property
    def composed(self) -> bool:
        return self.name.split()[0] == COMPOSED


def factorial(held: Mapping[str, Held]) -> Finding:
    """Regresses held-out quality on measured anatomy, and predicts objectives that the regression has not seen."""
    comparison = next(iter(held.values())).comparison
    rows = [row for row in comparison.contestants if row.summary is not None]
    points = [point for row in rows if (point := _point(row, comparison.metric)) is not None]
    left_out = [row.name for row in rows if row.name not in {point.name for point in points}]
    claim = (
        "Li et al. 2024: every effective loss is dissipation × weight × ratio. Nie et al. 2023: alignment and "
        "uniformity alone do not tell how good a representation is. Together: the measured anatomy should predict the "
        "quality of a loss that was not seen, and better than alignment and uniformity do."
    )
    clauses: dict[str, bool | None] = dict.fromkeys(
        (
            "five measured numbers predict an unseen objective better than the mean of all",
            "they predict it better than alignment and uniformity alone",
            "composed losses predict the registered objectives better than the mean of all",
        )
    )
    table = [{"objective": each.name, "quality": each.quality, **each.numbers} for each in points]
    if len(points) < FEWEST:
        return Finding(claim, f"Only {len(points)} objectives have all numbers.", clauses, data=_data(table),
                       published="no paper asked", here="too few objectives")  # fmt: skip
    quality = np.array([point.quality for point in points])
    anatomy, places = (predict(_features(points, names), quality) for names in (ANATOMY, PLACES))
    more = gain(anatomy, places, quality)
    names = list(clauses)
    clauses[names[0]] = _sign(anatomy.low, anatomy.high)
    clauses[names[1]] = _sign(more[1], more[2])
    registered = [place for place, point in enumerate(points) if not point.composed]
    transfer = None
    if len(registered) >= FEWEST and len(points) - len(registered) >= FEWEST:
        transfer = predict(_features(points, ANATOMY), quality, [registered])
        clauses[names[2]] = _sign(transfer.low, transfer.high)
    panels = {f"measured anatomy: {_words(anatomy)}": anatomy.predicted.tolist(),
              f"alignment and uniformity: {_words(places)}": places.predicted.tolist()}  # fmt: skip
    return Finding(
        claim=claim,
        measured=_measured(points, anatomy, places, more, transfer, left_out),
        clauses=clauses,
        data=_data([{**row, "from_anatomy": a, "from_places": p} for row, a, p in
                    zip(table, anatomy.predicted, places.predicted, strict=True)]),
        figures={"prediction": draw_predictions(quality.tolist(), panels, [point.composed for point in points])},
        published="no paper asked",
        here=f"explained: anatomy {_words(anatomy)}, alignment and uniformity {_words(places)}",
        fault="" if all(each is not False for each in clauses.values()) else
        "Our own question at a small scale: whether it is the scale or the idea, only the full scale can tell.",
    )  # fmt: skip


def _point(row: Row, metric: str) -> Point | None:
    """None where a number is missing: an objective on features has no ratio, a collapsed one no gradient."""
    found = {}
    for name in (*ANATOMY, *PLACES):
        values = summary(measured(row, name))
        if values is None or not math.isfinite(values.mean):
            return None
        found[name] = values.mean
    assert row.summary is not None
    return Point(row.name, row.summary.mean, found)


def _features(points: list[Point], names: tuple[str, ...]) -> Any:
    """(N, F); a ratio counts by its logarithm, for half and double are as far from one."""
    values = [[_scaled(name, point.numbers[name]) for name in names] for point in points]
    return np.array(values, dtype=np.float64)


def _scaled(name: str, value: float) -> float:
    return math.copysign(math.log1p(abs(value)), value) if name == "ratio" else value


def _sign(low: float, high: float) -> bool | None:
    return True if low > 0 else False if high < 0 else None


def _words(found: Prediction) -> str:
    return f"{found.explained:.2f} ({found.low:.2f} to {found.high:.2f})"


def _data(table: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {"objectives": table} if table else {}


def _measured(
    points: list[Point],
    anatomy: Prediction,
    places: Prediction,
    more: tuple[float, float, float],
    transfer: Prediction | None,
    left_out: list[str],
) -> str:
    composed = sum(point.composed for point in points)
    words = (
        f"{composed} composed losses and {len(points) - composed} registered objectives, each with its own learning "
        f"rate. Leaving one out, {', '.join(WORDS[name] for name in ANATOMY)} explain {_words(anatomy)} of the "
        f"variance of the test score, alignment and uniformity {_words(places)}: {more[0]:+.2f} ({more[1]:+.2f} to "
        f"{more[2]:+.2f}) more. "
    )
    if transfer is not None:
        words += f"Fitted on the composed losses alone, the anatomy explains {_words(transfer)} among the registered. "
    if left_out:
        words += f"Left out, since a number has no meaning for them: {', '.join(left_out)}."
    return words.strip()
