"""Every item of Koromilas et al. 2024 that reads a contest, in worlds that were made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hypersphere.studies.reproduce.items import as_csv
from tests.studies.reproduce.koromilas2024.worlds import (
    CLAIMED,
    CONTESTS,
    REFUTED,
    Item,
    contest,
    rewritten,
    run,
    with_rows,
    world,
)

SALT = 3  # of a draw in which no clause is decided: by chance one in twenty is


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
