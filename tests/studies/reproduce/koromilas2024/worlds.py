"""Contests of Koromilas et al. 2024 that were never held: the claim holds, it does not, or noise hides the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from hypersphere.studies.compare.results import Row, Run
from hypersphere.studies.reproduce.contest import Held, Scale
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024.batch_sizes import batch_size
from hypersphere.studies.reproduce.koromilas2024.collapse import collapse
from hypersphere.studies.reproduce.koromilas2024.robustness import robustness
from tests.studies.reproduce.fabricated import held, result

Item = Callable[[Mapping[str, Held]], Finding]
World = Callable[[Run], dict[str, Any] | str]
Truth = Mapping[str, tuple[float, float, float, float]]
CONTESTS: dict[Item, str] = {
    batch_size: "koromilas-batch",
    robustness: "koromilas-robustness",
    collapse: "koromilas-collapse",
}
SCORES = ("knn", "linear_0.1", "linear_1")


# Accuracy, loss of accuracy per halving of the batch below 256, loss per step of the temperature, effective rank.
CLAIMED = {"ntxent": (40.0, 2.0, 3.0, 20.0), "dcl": (41.0, 1.5, 2.0, 22.0), "dhel": (44.0, 0.5, 0.6, 30.0),
           "kcl": (43.5, 0.3, 0.5, 32.0), "untrained": (30.0, 0.0, 0.0, 12.0)}  # fmt: skip
REFUTED = {**CLAIMED, "dhel": CLAIMED["ntxent"], "kcl": CLAIMED["ntxent"], "ntxent": CLAIMED["kcl"],
           "dcl": CLAIMED["dhel"]}  # fmt: skip


def world(truth: Truth, noise: float, scores: tuple[str, ...] = SCORES, salt: int = 0) -> World:
    """Runs with these accuracies and ranks; the noise is drawn for each cell."""

    def make(run: Run) -> dict[str, Any]:
        accuracy, by_batch, by_temperature, rank = truth[run.contestant.partition(" ")[0].rstrip(",")]
        draw = np.random.default_rng([salt, int(run.cell[:8], 16)])
        size = run.settings.get("batch.size", 128)
        accuracy -= by_batch * math.log2(256 / size) + by_temperature * _steps_from_best(run.contestant)
        values = {name: accuracy + place + noise * draw.standard_normal() for place, name in enumerate(scores)}
        made = result(accuracy, steps=48000 // size, **values)
        made["views"] = {"effective_rank": rank + 4 * noise * draw.standard_normal(), "wasserstein": 1 / rank}
        made["measured"] = [{"step": 0, "effective_rank": 5.0}, {"step": 9, "effective_rank": rank / 2}]
        return made

    return make


def _steps_from_best(contestant: str) -> int:
    """How many values of the temperature, or of KCL's t, lie between the one here and the best one."""
    given = dict(word.rstrip(",").split("=", 1) for word in contestant.split(" ") if "=" in word)
    values = ("0.5", "1.0", "2.0", "7.0") if "t" in given else ("1.0", "0.5", "0.2", "0.07")
    return abs(values.index(given.get("t", given.get("temperature", values[1]))) - 1)


@cache
def contest(name: str, scale: Scale) -> Held:
    return held(name, lambda cell: result(40.0), scale)


def rewritten(name: str, make: World, scale: Scale = "small") -> Held:
    """The contest with what ``make`` gives for each run; a text is the reason for which it failed."""
    whole = contest(name, scale)

    def run(old: Run) -> Run:
        made = make(old)
        return (
            replace(old, state="failed", reason=made, result={}) if isinstance(made, str) else replace(old, result=made)
        )

    rows = [replace(row, runs=[run(old) for old in row.runs]) for row in whole.comparison.rows]
    return with_rows(whole, rows)


def with_rows(whole: Held, rows: list[Row]) -> Held:
    return replace(whole, comparison=replace(whole.comparison, rows=rows))


def run(item: Item, make: World, scale: Scale = "small") -> Finding:
    return item({CONTESTS[item]: rewritten(CONTESTS[item], make, scale)})
