"""Accuracies of runs: those that diverged, those that failed otherwise, and a guess."""

from __future__ import annotations

from hypersphere.studies.compare.cells import Cell
from hypersphere.studies.reproduce.cloa2024.accuracies import Accuracies
from hypersphere.studies.reproduce.cloa2024.rates import fig1, fig2
from tests.studies.reproduce.cloa2024.worlds import (
    Made,
    as_published,
    held,
    scored,
)


def test_a_rate_at_which_most_runs_diverged_is_not_chosen_for_a_lucky_one() -> None:
    def world(cell: Cell) -> Made:
        if cell.settings.get("optimizer.lr") == 1.0:
            return scored(60.0) if cell.seed == 43 else "the loss is not finite"
        return scored(40.0)

    own = Accuracies(held("cloa-rates", world)["cloa-rates"].comparison)
    assert own.best("InfoNCE", False) != 1.0


def test_a_run_without_a_score_counts_as_chance_and_is_counted() -> None:
    def world(cell: Cell) -> Made:
        if cell.objective == "vicreg" and cell.settings["optimizer.lr"] == 1.0:
            return "NotFiniteError: the loss is not finite at step 12"
        if cell.objective == "barlow" and cell.settings["optimizer.lr"] == 1.0 and cell.seed == 43:
            return {**scored(30.0), "scores": {"mlp_0.1": None, "mlp_0.5": 40.0, "mlp_1": 50.0}}
        return as_published(cell)

    contest = held("cloa-rates", world)
    own = Accuracies(contest["cloa-rates"].comparison)
    assert set(own.accuracy("VICReg", False, 1.0, 0.1).values()) == {10.0}
    assert set(own.accuracy("VICReg", False, 1.0, 0.1, top=5).values()) == {50.0}
    assert own.accuracy("Barlow Twins", False, 1.0, 0.1)[43] == 10.0
    assert own.accuracy("Barlow Twins", False, 1.0, 0.5)[43] == 40.0
    finding = fig2(contest)
    assert "4 of 144 runs diverged" in finding.measured
    assert "1 of Barlow Twins at rate 1, 3 of VICReg at rate 1" in finding.measured
    assert finding.clauses["at rate 1 anchors have the larger variance, for every base"] is None
    assert "None of the 18 runs that ended diverged." in fig1(contest).measured


def test_a_failure_that_is_no_divergence_is_left_out() -> None:
    def world(cell: Cell) -> Made:
        return "OSError: no space left" if cell.objective == "ntxent" and cell.seed == 43 else as_published(cell)

    contest = held("cloa-rates", world)
    own = Accuracies(contest["cloa-rates"].comparison)
    assert set(own.accuracy("InfoNCE", False, 1.0, 0.1)) == {44, 45}
    assert "6 failed for another reason and are left out" in fig1(contest).measured


def test_chance_on_cifar100_is_one_in_a_hundred() -> None:
    own = Accuracies(held("cloa-second", lambda cell: None, "full")["cloa-second"].comparison)
    assert (own.chance(), own.chance(5)) == (1.0, 5.0)
