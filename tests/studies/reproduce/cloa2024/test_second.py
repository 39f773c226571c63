"""Table 4, the second data set, in worlds that were made up."""

from __future__ import annotations

from hypersphere.studies.compare.cells import Cell
from tests.studies.reproduce.cloa2024.worlds import (
    Made,
    anchors,
    judge,
    noise,
    scored,
)


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
