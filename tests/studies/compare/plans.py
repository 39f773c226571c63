"""Studies on the digits that never ran: their plans, and attempts with made-up scores."""

from functools import cache

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import collect
from hypersphere.studies.compare.study import read_study


def plan(**given):
    return Plan(
        read_study("digits", given.pop("words", []), **{"objectives": "ntxent,dhel", "trials": 3, "seeds": 2, **given})
    )


STAGES = [{"batch.size": [64, 128], "optimizer.lr": [0.001, 0.01], "objective.temperature": [0.3]},
          {"objective.temperature": [0.1, 0.3, 0.5]}]  # fmt: skip


def ended(cells, score):
    return {cell.id: Attempt(-1, "done", "", {"history": {"0": {"knn": score(cell)}}, "best_step": 0, "scores": {}})
            for cell in cells}  # fmt: skip


OFFSETS = [0.3, -0.8, 0.5, -0.1, 0.9, -0.6, 0.2, -0.4, 0.7, 0.1]


def attempt(validation, test=None, **rest):
    scores = {} if test is None else {"knn": test}
    result = {"scores": scores, "history": {"0": {"knn": 50.0}, "6": {"knn": validation}}, "best_step": 6, "steps": 6,
              "seconds": 2.0, "memory": 400, "verdicts": [], "measured": [], **rest}  # fmt: skip
    return Attempt(0, "done", "", result)


@cache
def comparison(seeds=8, leads=(0.0, 5.0, 0.05), fail=()):
    """ntxent, dhel and vicreg ahead of ntxent by so much, with noise that differs between them."""
    plan = Plan(read_study("digits", objectives="ntxent,dhel,vicreg", trials=2, seeds=seeds))
    attempts = {cell.id: attempt(50.0, 50.0 + OFFSETS[k % 10]) for k, cell in enumerate(plan.untrained)}
    attempts |= {cell.id: attempt(70.0 + cell.trial) for cell in plan.tuning}
    for place, (objective, lead) in enumerate(zip(plan.study.objectives, leads, strict=True)):
        chosen = next(cell for cell in plan.tuning if cell.objective == objective["name"] and cell.trial == 1)
        for k, cell in enumerate(plan.test(objective, chosen)):
            noise = OFFSETS[(k * (place + 1) + place) % 10]
            attempts[cell.id] = attempt(70.0, 70.0 + lead + noise)
    for cell in plan.tuning:
        if cell.objective in fail:
            attempts[cell.id] = Attempt(0, "failed", "the <loss> is not finite", None)
    return collect(plan, attempts)
