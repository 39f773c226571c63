"""CLOA's trained items on contests that were never held: worlds in which a claim holds, fails or drowns in noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hypersphere.studies.compare.cells import Cell, Plan
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import collect
from hypersphere.studies.reproduce.cloa2024 import lines, published
from hypersphere.studies.reproduce.cloa2024.accuracies import ANCHORED, BASES, Accuracies
from hypersphere.studies.reproduce.cloa2024.lines import table2
from hypersphere.studies.reproduce.cloa2024.rates import fig1, fig2, fig3, table3
from hypersphere.studies.reproduce.cloa2024.second import table4
from hypersphere.studies.reproduce.contest import Held, Scale, contests
from hypersphere.studies.reproduce.items import Finding, as_csv, find, page
from tests.studies.reproduce.fabricated import ABOUT, result

SEEDS = 3
Made = dict[str, Any] | str | None  # a result, the reason of a failure, or a run that waits
World = Callable[[Cell], Made]

DRAWN = {"lines": ("draw_rates",), "rates": ("draw_rates", "draw_phases"), "gains": ("draw_pairs",),
         "second": ("draw_pairs",)}  # fmt: skip
ITEMS = {"table2": "cloa-lines", "fig1": "cloa-rates", "fig2": "cloa-rates", "fig3": "cloa-rates",
         "table3": "cloa-rates", "table4": "cloa-second"}  # fmt: skip
FINDERS: dict[str, Callable[[Mapping[str, Held]], Finding]] = {
    "table2": table2, "fig1": fig1, "fig2": fig2, "fig3": fig3, "table3": table3, "table4": table4
}  # fmt: skip


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take longer than the numbers in them: they are drawn in one test."""
    if "drawn" not in request.node.name:
        for module, functions in DRAWN.items():
            for function in functions:
                target = f"hypersphere.studies.reproduce.cloa2024.{module}.{function}"
                monkeypatch.setattr(target, lambda *args, **options: None)


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


# --- worlds of the learning rates

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


@pytest.mark.parametrize("item", ["fig1", "fig2", "fig3", "table3"])
def test_a_world_as_published_agrees(item: str) -> None:
    finding = judge(item, as_published)
    assert finding.verdict == "agrees", finding.clauses
    assert not finding.fault


@pytest.mark.parametrize("item", ["fig2", "fig3", "table3"])
def test_a_world_that_runs_the_other_way_does_not_agree(item: str) -> None:
    finding = judge(item, reversed_rates)
    assert set(finding.clauses.values()) == {False}, finding.clauses
    assert finding.verdict == "does not agree"
    assert "cale" in finding.fault or "laim" in finding.fault


def test_accuracy_that_only_rises_or_only_falls_is_figure_1_in_part() -> None:
    for sign in (1, -1):
        finding = judge("fig1", lambda cell, sign=sign: scored(40 + sign * 5 * math.log10(rate_of(cell))))
        assert list(finding.clauses.values()) == [False, sign == 1, sign == -1]
        assert finding.verdict == "partly"
        assert finding.fault.startswith("Scale or claim")


@pytest.mark.parametrize("item", ["fig1", "fig2", "fig3", "table3"])
def test_noise_decides_nothing(item: str) -> None:
    finding = judge(item, only_noise)
    assert set(finding.clauses.values()) == {None}, finding.clauses
    assert finding.verdict == "undecided"
    assert not finding.fault


def test_gains_below_the_claimed_ones_agree_in_part() -> None:
    finding = judge("table3", lambda cell: scored(40.0 + 5 * anchors(cell) + noise(cell, 0.01)))
    assert finding.verdict == "partly"
    assert finding.clauses["10 %: anchors improve every base"]
    assert not finding.clauses["10 %: the gain is above 24.4 points, the least published, for every base"]
    assert finding.here.startswith("gains of 5.0 to 5.0, 5.0 to 5.0,")
    assert "the bases reach" in finding.fault


def test_table_3_stands_at_the_rate_that_validation_chose() -> None:
    def world(cell: Cell) -> Made:
        rate = cell.settings.get("optimizer.lr")
        validation = 90.0 if rate == 1e-3 else 20.0
        accuracy = 30.0 if rate == 1e-3 else 99.0  # the test set would choose another
        return {**scored(accuracy), "history": {"300": {"knn": validation}}}

    finding = judge("table3", world)
    rows = finding.data["table3"]
    assert {row["rate"] for row in rows} == {1e-3}
    assert {row["top1"] for row in rows} == {30.0}
    assert "InfoNCE 0.001" in finding.measured


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


# --- the second data set


def test_a_second_set_on_which_anchors_win_agrees() -> None:
    finding = judge("table4", lambda cell: scored(30.0 + 20 * anchors(cell) + noise(cell, 0.3)))
    assert finding.verdict == "agrees"
    assert finding.here == "better in 24 of 24 cells, worse in 0, 0 undecided"
    assert finding.published.startswith("better in 15 of 24 cells, worse in 9")


def test_a_second_set_on_which_anchors_lose_at_rate_1_only_blames_the_rates() -> None:
    def world(cell: Cell) -> Made:
        rate = cell.settings.get("optimizer.lr")
        return scored((45.0 if rate == 0.01 else 15.0) + 5 * anchors(cell) + noise(cell, 0.1))

    finding = judge("table4", world)
    assert finding.verdict == "does not agree"
    assert "both at rate 0.01: better in 24, worse in 0" in finding.measured
    assert "at a common rate anchors do help" in finding.fault


def test_noise_on_a_second_set_is_undecided() -> None:
    assert judge("table4", lambda cell: scored(50 + noise(cell, 10))).verdict == "undecided"


def test_published_cells_are_counted_from_the_published_table() -> None:
    assert published.cells4() == (15, 9)
    assert [round(gain, 2) for gain in sorted(published.gains3(0.1))] == [24.37, 26.14, 30.07, 37.09]


# --- three lines


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


def test_lines_that_collapse_at_one_rate_agree() -> None:
    finding = judge("table2", collapsing_lines)
    assert finding.verdict == "agrees", finding.clauses
    assert "judged at rate 0.1 with batch norm" in finding.measured
    assert "at 1 of 8 settings (rate 0.1 with batch norm)" in finding.measured
    assert "No run failed." in finding.measured


def test_lines_that_stay_round_and_mixed_do_not_agree() -> None:
    def world(cell: Cell) -> Made:
        return line_scores(0.8 if cell.objective == "barlow" else 0.4, 0.9 if anchors(cell) else 0.2, 70, cell, 1e-3)

    finding = judge("table2", world)
    assert list(finding.clauses.values())[:4] == [False] * 4
    assert finding.verdict == "does not agree"
    assert finding.fault.startswith("Claim or setting, for the line: of 8 settings")
    assert "Setting, perhaps, for CLOA" in finding.fault


def test_noisy_lines_are_undecided() -> None:
    finding = judge("table2", lambda cell: line_scores(0.9, 0.5, 70, cell, 0.2))
    assert finding.verdict == "undecided"


def test_lines_that_diverged_are_counted_and_named() -> None:
    def world(cell: Cell) -> Made:
        lost = cell.objective == "vicreg" and cell.settings["optimizer.lr"] == 1.0
        return "the loss is not finite" if lost else collapsing_lines(cell)

    finding = judge("table2", world)
    assert "6 runs failed, 6 of them with a loss or gradient that was no longer finite" in finding.measured
    assert "VICReg at rate 1 with batch norm, 3; VICReg at rate 1 without batch norm, 3" in finding.measured
    row = next(row for row in finding.data["lines"] if row["objective"] == "VICReg" and row["rate"] == 1.0)
    assert (row["failed"], row["first_share"]) == (3, None)


# --- every item


@pytest.mark.parametrize("item", ITEMS)
def test_nothing_run_yet_is_undecided(item: str) -> None:
    finding = judge(item, lambda cell: None)
    assert set(finding.clauses.values()) == {None}
    assert all(as_csv(rows) for rows in finding.data.values())
    assert finding.here


@pytest.mark.parametrize("item", ITEMS)
def test_a_contest_of_which_half_has_run_raises_nothing(item: str) -> None:
    def world(cell: Cell) -> Made:
        if cell.seed > 44 or cell.objective in ("barlow", "cloa base=vicreg"):
            return None
        return collapsing_lines(cell) if item == "table2" else as_published(cell)

    finding = judge(item, world)
    if item != "fig1":
        assert None in finding.clauses.values()


@pytest.mark.parametrize("item", ITEMS)
def test_the_tiny_scale_has_another_probe_one_seed_and_no_verdict(item: str) -> None:
    def world(cell: Cell) -> Made:
        return collapsing_lines(cell) if item == "table2" else scored(50 + noise(cell, 3), probe="linear")

    contest = held(ITEMS[item], world, "tiny")
    finding = FINDERS[item](contest)
    assert set(finding.clauses.values()) == {None}
    assert find(f"cloa2024/{item}") is FINDERS[item]
    text = page(f"cloa2024/{item}", finding, True, contest)
    assert "**Verdict:** undecided" in text
    if item != "table2":
        accuracy = "accuracy" if item == "table4" else "top1"
        assert all(row[accuracy] is not None for row in finding.data["rates" if "fig" in item else item])


@pytest.mark.parametrize("item", ["table2", "fig1", "fig2", "table4"])
def test_figures_are_drawn_of_half_a_contest_too(item: str) -> None:
    def world(cell: Cell) -> Made:
        if cell.seed > 43 or cell.objective == "barlow" or rate_of(cell) == 0.1:
            return None
        return collapsing_lines(cell) if item == "table2" else as_published(cell)

    for figure in judge(item, world).figures.values():
        figure.canvas.draw()
        assert any(axis.lines for axis in figure.axes)


def test_the_items_name_the_rows_of_their_contests() -> None:
    assert set(plan_of("cloa-lines", "tiny").study.labels) == set(lines.OBJECTIVES.values())
    for name in ("cloa-rates", "cloa-second"):
        assert set(plan_of(name, "tiny").study.labels) == {*BASES.values(), *ANCHORED.values()}
