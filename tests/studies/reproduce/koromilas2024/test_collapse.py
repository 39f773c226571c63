"""Dimensions that are used, after tuning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hypersphere.studies.reproduce.contest import contests
from hypersphere.studies.reproduce.koromilas2024.collapse import collapse
from tests.studies.reproduce.fabricated import held, result
from tests.studies.reproduce.koromilas2024.worlds import (
    CLAIMED,
    run,
    world,
)


def test_losses_that_do_not_learn_are_not_cleared_of_a_fault_in_the_implementation() -> None:
    dead = {**CLAIMED, "dhel": CLAIMED["untrained"], "kcl": CLAIMED["untrained"]}
    assert "not cleared" in run(collapse, world(dead, 0.1)).fault


def test_collapse_names_what_was_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "only the learning rate was tuned" not in run(collapse, world(CLAIMED, 0.1)).measured
    contest = contests()["koromilas-collapse"]
    listed = [{"name": "dcl", "negatives": "both", "temperature": 0.5} if "dcl" in str(each) else each
              for each in contest.study["objectives"]]  # fmt: skip
    fixed = replace(contest, study={**contest.study, "objectives": listed})
    monkeypatch.setitem(contests(), "koromilas-collapse", fixed)
    made = {"koromilas-collapse": held("koromilas-collapse", lambda cell: result(30.0, knn=30.0))}
    assert "Of DCL only the learning rate was tuned" in collapse(made).measured


def test_collapse_compares_every_kernel() -> None:
    finding = run(collapse, world(CLAIMED, 0.1))
    objectives = {row["objective"] for row in finding.data["objectives"]}
    kernels = {f"KCL {kernel}" for kernel in ("gaussian", "log", "imq", "riesz", "gaussian riesz")}
    assert objectives == {"SimCLR", "DCL", "DHEL", "untrained"} | kernels
