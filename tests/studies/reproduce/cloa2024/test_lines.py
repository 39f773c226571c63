"""Table 2, three lines, in worlds that were made up."""

from __future__ import annotations

from hypersphere.studies.compare.cells import Cell
from tests.studies.reproduce.cloa2024.worlds import (
    Made,
    anchors,
    collapsing_lines,
    judge,
    line_scores,
)


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
