"""The items of Koromilas et al. 2024 that read a contest, each in worlds that were made up: the claim holds, it does
not, or noise hides the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from hypersphere.studies.compare.results import Row, Run
from hypersphere.studies.reproduce.contest import Held, Scale, contests
from hypersphere.studies.reproduce.items import Finding, as_csv
from hypersphere.studies.reproduce.koromilas2024 import lee2025
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
SALT = 3  # of a draw in which no clause is decided: by chance one in twenty is
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


@pytest.mark.parametrize("item", CONTESTS)
def test_agrees_where_the_claim_is_true(item: Item) -> None:
    finding = run(item, world(CLAIMED, 0.1))
    assert finding.verdict == "agrees", finding.clauses
    assert finding.fault == ""


@pytest.mark.parametrize("item", CONTESTS)
def test_does_not_agree_where_the_claim_is_false(item: Item) -> None:
    finding = run(item, world(REFUTED, 0.1))
    assert finding.verdict == "does not agree", finding.clauses
    assert "not suspected" in finding.fault


@pytest.mark.parametrize("item", CONTESTS)
def test_partly_where_the_claim_is_true_of_kcl_alone(item: Item) -> None:
    finding = run(item, world({**CLAIMED, "dhel": (39.0, 2.6, 3.5, 18.0)}, 0.1))
    assert finding.verdict == "partly"
    assert {holds for words, holds in finding.clauses.items() if words.startswith("KCL")} == {True}
    assert {holds for words, holds in finding.clauses.items() if words.startswith("DHEL")} == {False}


@pytest.mark.parametrize("item", CONTESTS)
def test_undecided_where_noise_is_larger_than_the_difference(item: Item) -> None:
    quiet = {name: (accuracy / 100 + 40, 0.0, 0.0, rank / 100 + 20) for name, (accuracy, _, _, rank) in CLAIMED.items()}
    finding = run(item, world(quiet, 5.0, salt=SALT))
    assert finding.verdict == "undecided", finding.clauses


@pytest.mark.parametrize("item", CONTESTS)
def test_one_seed_decides_nothing_and_is_still_written_and_drawn(item: Item) -> None:
    finding = run(item, world(CLAIMED, 0.1), "tiny")
    assert set(finding.clauses.values()) == {None}
    assert finding.here and "nan" not in finding.measured + finding.here
    for rows in finding.data.values():
        assert as_csv(rows).count("\n") == len(rows) + 1
    for figure in finding.figures.values():
        figure.draw_without_rendering()


@pytest.mark.parametrize("item", CONTESTS)
def test_scores_that_are_missing_leave_the_accuracy_undecided(item: Item) -> None:
    finding = run(item, world(CLAIMED, 0.1, ("knn",)))
    assert {holds for words, holds in finding.clauses.items() if "dimensions" not in words} == {None}


@pytest.mark.parametrize("item", CONTESTS)
def test_rows_that_are_missing_leave_their_clauses_undecided(item: Item) -> None:
    name = CONTESTS[item]
    whole = rewritten(name, world(CLAIMED, 0.1))
    rows = [row for row in whole.comparison.rows if not row.objective.startswith("dhel")]
    finding = item({name: with_rows(whole, rows)})
    assert {holds for words, holds in finding.clauses.items() if "DHEL" in words} == {None}
    assert {holds for words, holds in finding.clauses.items() if "KCL" in words} == {True}


@pytest.mark.parametrize("item", CONTESTS)
def test_a_contest_without_any_run_is_undecided(item: Item) -> None:
    name = CONTESTS[item]
    whole = contest(name, "small")
    finding = item({name: with_rows(whole, [replace(row, runs=[]) for row in whole.comparison.rows])})
    assert finding.verdict == "undecided"
    for figure in finding.figures.values():
        figure.draw_without_rendering()


def test_a_run_that_failed_counts_as_chance_in_the_spread() -> None:
    make = world(CLAIMED, 0.1)

    def diverging(run: Run) -> dict[str, Any] | str:
        return "the loss is not finite" if run.contestant.startswith("dhel temperature=0.07") else make(run)

    finding = run(robustness, diverging)
    assert finding.clauses["DHEL has a smaller best-to-worst spread than SimCLR"] is False
    assert finding.clauses["KCL has a smaller best-to-worst spread than SimCLR"] is True
    assert "10.0 at (0.07, " in finding.fault


def test_best_batch_size_at_one_end_for_all_is_put_down_to_the_steps() -> None:
    finding = run(batch_size, world(REFUTED, 0.05))
    assert "a batch of 16 takes 3000 steps and one of 256 takes 187" in finding.fault
    assert "number of steps decides" in finding.fault


def test_losses_that_do_not_learn_are_not_cleared_of_a_fault_in_the_implementation() -> None:
    dead = {**CLAIMED, "dhel": CLAIMED["untrained"], "kcl": CLAIMED["untrained"]}
    assert "not cleared" in run(collapse, world(dead, 0.1)).fault


def test_third_party_numbers_are_labelled_and_stay_out_of_the_clauses() -> None:
    finding = run(batch_size, world(CLAIMED, 0.1))
    assert {row["source"] for row in finding.data["third-party"]} == {lee2025.SOURCE}
    assert "third party" in finding.measured and "third party" in finding.published
    assert not any("Lee" in words for words in finding.clauses)


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
