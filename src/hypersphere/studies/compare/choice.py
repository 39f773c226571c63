"""Choosing the setting of each objective by its validation score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypersphere.studies.compare.cells import Cell, Plan
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.scores import validation_score
from hypersphere.studies.compare.study import label_of


def choose(plan: Plan, attempts: Mapping[str, Attempt]) -> list[tuple[dict[str, Any], Cell]]:
    """For every objective whose tuning is over: the cell with the best validation score, the earliest of equals. An
    objective none of whose trials gave a score is left out."""
    if not plan.study.trials and not plan.study.grid:
        return [(objective, plan.given(objective)) for objective in plan.study.objectives]
    by_objective: dict[str, list[Cell]] = {}
    for cell in plan.tuning:
        by_objective.setdefault(cell.objective, []).append(cell)
    chosen = []
    for objective in plan.study.objectives:
        cells = by_objective.get(label_of(objective), [])
        if not all(cell.id in attempts and attempts[cell.id].state in ("done", "failed") for cell in cells):
            continue
        scored = [(score, cell) for cell in cells if (score := score_of(cell, attempts, plan.metric)) is not None]
        if scored:
            chosen.append((objective, max(scored, key=lambda each: (each[0], -each[1].trial))[1]))
    return chosen


def score_of(cell: Cell, attempts: Mapping[str, Attempt], metric: str) -> float | None:
    """The validation score of a cell, if it has one."""
    attempt = attempts.get(cell.id)
    if attempt is None or attempt.state != "done" or attempt.result is None:
        return None
    return validation_score(attempt.result, metric)
