"""CLOA's contests as they were never held: worlds in which a claim holds, fails or drowns in noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hypersphere.studies.compare.cells import Cell, Plan
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import collect
from hypersphere.studies.reproduce.cloa2024.accuracies import ANCHORED, BASES
from hypersphere.studies.reproduce.cloa2024.gains import table3
from hypersphere.studies.reproduce.cloa2024.lines import table2
from hypersphere.studies.reproduce.cloa2024.rates import fig1, fig2, fig3
from hypersphere.studies.reproduce.cloa2024.second import table4
from hypersphere.studies.reproduce.contest import Held, Scale, contests
from hypersphere.studies.reproduce.items import Finding
from tests.studies.reproduce.fabricated import ABOUT, result

SEEDS = 3
Made = dict[str, Any] | str | None  # a result, the reason of a failure, or a run that waits
World = Callable[[Cell], Made]
ITEMS = {"table2": "cloa-lines", "fig1": "cloa-rates", "fig2": "cloa-rates", "fig3": "cloa-rates",
         "table3": "cloa-rates", "table4": "cloa-second"}  # fmt: skip
FINDERS: dict[str, Callable[[Mapping[str, Held]], Finding]] = {
    "table2": table2, "fig1": fig1, "fig2": fig2, "fig3": fig3, "table3": table3, "table4": table4
}  # fmt: skip


@cache
def plan_of(name: str, scale: Scale) -> Plan:
    """As ``fabricated.held`` makes it, but once, and for three seeds: a plan of hundreds of cells takes seconds."""
    study = contests()[name].at(scale, Path("nowhere"))
    return Plan(study.model_copy(update={"seeds": min(SEEDS, study.seeds)}))


def held(name: str, world: World, scale: Scale = "small") -> dict[str, Held]:
    plan = plan_of(name, scale)
    attempts = {}
    for cell in plan.begin:
        made = world(cell)
        if made is not None:
            done = isinstance(made, dict)
            attempts[cell.id] = Attempt(
                -1, "done" if done else "failed", "" if done else str(made), made if done else None
            )
    return {name: Held(contests()[name], scale, collect(plan, attempts), dict(ABOUT))}


def judge(item: str, world: World, scale: Scale = "small") -> Finding:
    return FINDERS[item](held(ITEMS[item], world, scale))


def noise(cell: Cell, size: float) -> float:
    return random.Random(f"{cell.id}").gauss(0, size)


def rate_of(cell: Cell) -> float:
    """1e-5 for the encoder as it was given."""
    return float(cell.settings.get("optimizer.lr", 1e-5))


def anchors(cell: Cell) -> bool:
    return cell.objective.startswith("cloa")


def scored(accuracy: float, variance: float = 1.0, probe: str = "mlp") -> dict[str, Any]:
    """The same accuracy at every share of the labels."""
    scores = {"variance": variance}
    for share in ("0.1", "0.5", "1"):
        scores |= {f"{probe}_{share}": accuracy, f"{probe}_{share}_top5": min(100.0, accuracy + 30)}
    return result(accuracy, **scores)


PHASES = {1e-5: 30.0, 1e-4: 30.4, 1e-3: 45.0, 1e-2: 25.0, 0.1: 15.0, 1.0: 10.0}


def as_published(cell: Cell) -> Made:
    rate = rate_of(cell)
    if not anchors(cell):
        variance = 1e-6 if rate == 1.0 else 1.0
        return scored(PHASES[rate] + abs(noise(cell, 0.1)), variance * (1 + abs(noise(cell, 0.01))))
    return scored(80.0 + 3 * math.log10(rate) + noise(cell, 0.1), 2.0 + noise(cell, 0.01))


def reversed_rates(cell: Cell) -> Made:
    """Accuracy falls, stays and rises; anchors hurt; nothing collapses but anchors' variance."""
    rate = rate_of(cell)
    if not anchors(cell):
        return scored({1e-5: 50.0, 1e-4: 40.0}.get(rate, 30.0) + (35 if rate == 1.0 else 0) + noise(cell, 0.1))
    return scored(20.0 - 3 * math.log10(rate) + noise(cell, 0.1), 0.01)


def only_noise(cell: Cell) -> Made:
    """Every row has the same mean, and its seeds lie wide apart: each pair of rows by another width."""
    place = 8 * list(PHASES).index(rate_of(cell)) + [*BASES.values(), *ANCHORED.values(), "untrained"].index(
        cell.objective
    )
    side = (cell.seed + place) % 3 - 1
    return {
        **scored(50.0 + 40 * (1 + place) * side, math.exp(side * (3 + place % 5))),
        "history": {"300": {"knn": 50.0}},
    }


def line_scores(first: float, cosine: float, knn: float, cell: Cell, size: float = 0.01) -> dict[str, Any]:
    shift = noise(cell, size)
    return result(knn, knn=knn + 100 * shift, first_share=first + shift, first_share_centred=first + shift,
                  effective_rank=1 / first, class_cosine=cosine + shift)  # fmt: skip


def collapsing_lines(cell: Cell) -> Made:
    """At rate 0.1, with batch norm, the paper's picture; elsewhere InfoNCE is round."""
    if cell.settings.get("optimizer.lr") != 0.1 or cell.settings.get("encoder.norm") != "batch":
        return line_scores(0.4, 0.6, 70, cell)
    if anchors(cell):
        return line_scores(0.4, 0.1, 80, cell)
    return line_scores(0.97 if cell.objective == "ntxent" else 0.8, 0.95, 50, cell)
