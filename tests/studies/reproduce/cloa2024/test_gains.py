"""Table 3 in worlds that were made up."""

from __future__ import annotations

from hypersphere.studies.compare.cells import Cell
from tests.studies.reproduce.cloa2024.worlds import (
    Made,
    anchors,
    as_published,
    judge,
    noise,
    only_noise,
    reversed_rates,
    scored,
)


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


def test_table_3_agrees_where_every_gain_is_as_published_and_does_not_where_anchors_hurt() -> None:
    finding = judge("table3", as_published)
    assert finding.verdict == "agrees" and not finding.fault, finding.clauses
    finding = judge("table3", reversed_rates)
    assert set(finding.clauses.values()) == {False} and finding.verdict == "does not agree"
    assert "claim" in finding.fault.lower()


def test_table_3_is_undecided_in_noise() -> None:
    finding = judge("table3", only_noise)
    assert set(finding.clauses.values()) == {None} and finding.verdict == "undecided" and not finding.fault
