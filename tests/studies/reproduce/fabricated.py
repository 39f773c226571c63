"""Contests that were never held: every run has the result that a function makes up for its cell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypersphere.studies.compare.cells import Cell, Plan, unique
from hypersphere.studies.compare.choice import choose, tuned
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import Row, Run, collect
from hypersphere.studies.reproduce.contest import Contest, Held, Scale, contests

ABOUT = {"hypersphere": "0", "commit": "abc", "torch": "2", "machine": "none", "device": "cpu", "minutes": 1.0}


def result(validation: float, metric: str = "knn", steps: int = 300, **scores: float) -> dict[str, Any]:
    """What a run gives, with these scores on the test set; ``measured`` and the like are added by the caller."""
    return {
        "scores": scores, "given": {}, "history": {"0": {metric: 20.0}, str(steps): {metric: validation}},
        "best_step": None, "steps": steps, "seconds": 1.0, "memory": 100, "verdicts": [], "measured": [],
        "training": [], "pairs": [], "views": {},
    }  # fmt: skip


_plans: dict[tuple[str, Scale], tuple[Contest, Plan]] = {}


def _plan(name: str, scale: Scale) -> Plan:
    """Made once for each contest: a large one has a thousand recipes."""
    contest = contests()[name]
    if (name, scale) not in _plans or _plans[name, scale][0] is not contest:
        _plans[name, scale] = contest, Plan(contest.at(scale, Path("nowhere")))
    return _plans[name, scale][1]


def held(name: str, make: Callable[[Cell], dict[str, Any] | str], scale: Scale = "small") -> Held:
    """A contest in which ``make`` gives each cell its result, or the reason for which it failed."""
    plan = _plan(name, scale)

    def ended(cells: list[Cell]) -> dict[str, Attempt]:
        made = {cell.id: make(cell) for cell in unique(cells)}
        return {
            cell: Attempt(-1, "failed", each, None) if isinstance(each, str) else Attempt(-1, "done", "", each)
            for cell, each in made.items()
        }

    attempts = ended(plan.begin)
    for _ in plan.study.stages:
        for objective in plan.study.objectives:
            attempts |= ended(tuned(plan, objective, attempts))
    for objective, chosen in [] if plan.study.grid else choose(plan, attempts):
        attempts |= ended(plan.test(objective, chosen))
    return Held(contests()[name], scale, collect(plan, attempts), dict(ABOUT))


def row(*results: dict[str, Any] | str, label: str = "met") -> Row:
    """A row whose runs, with the seeds 43, 44, …, gave these results; a text is the reason of a failure."""
    runs = [
        Run(label, "test", 0, 43 + place, {}, f"{label} {place}", "failed", each, None, None, {})
        if isinstance(each, str)
        else Run(label, "test", 0, 43 + place, {}, f"{label} {place}", "done", "", None, None, each)
        for place, each in enumerate(results)
    ]
    return Row(label, label, {}, {}, [], runs, "", {})
