"""Choosing the setting of each objective by its validation score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypersphere.studies.compare.cells import Cell, Plan
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.scores import validation_score
from hypersphere.studies.compare.study import label_of


def choose(plan: Plan, attempts: Mapping[str, Attempt]) -> list[tuple[dict[str, Any], Cell]]:
    """The cell with the best validation score for every objective whose tuning is over; the earliest wins a tie. An
    objective without any scored trial is left out."""
    if not plan.study.tunes and not plan.study.grid:
        return [(objective, plan.given(objective)) for objective in plan.study.objectives]
    chosen = []
    for objective in plan.study.objectives:
        cells = tuned(plan, objective, attempts)
        best = _best(cells, attempts, plan.metric)
        if best is not None and len(cells) == plan.trials(objective):
            chosen.append((objective, best))
    return chosen


def tuned(plan: Plan, objective: Mapping[str, Any], attempts: Mapping[str, Attempt]) -> list[Cell]:
    """The trials of an objective that are determined so far. A stage is determined once the stage before it is over."""
    if not plan.study.stages:
        return [cell for cell in plan.tuning if cell.objective == label_of(objective)]
    cells: list[Cell] = []
    for number in range(len(plan.study.stages)):
        best = _best(cells, attempts, plan.metric)
        if number and best is None:
            break
        cells = [*cells, *plan.stage(objective, number, best.settings if best else {})]
    return cells


def _best(cells: list[Cell], attempts: Mapping[str, Attempt], metric: str) -> Cell | None:
    """The cell with the best validation score once all have ended; the earliest wins a tie. None without a score."""
    if not all(cell.id in attempts and attempts[cell.id].state in ("done", "failed") for cell in cells):
        return None
    scored = [(score, cell) for cell in cells if (score := score_of(cell, attempts, metric)) is not None]
    return max(scored, key=lambda each: (each[0], -each[1].trial))[1] if scored else None


def score_of(cell: Cell, attempts: Mapping[str, Attempt], metric: str) -> float | None:
    """The validation score of a cell, if it has one."""
    attempt = attempts.get(cell.id)
    if attempt is None or attempt.state != "done" or attempt.result is None:
        return None
    return validation_score(attempt.result, metric)
