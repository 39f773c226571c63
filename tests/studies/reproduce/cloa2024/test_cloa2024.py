"""Every trained item of CLOA on contests that have not begun, are half done, or tiny."""

from __future__ import annotations

import pytest

from hypersphere.studies.compare.cells import Cell
from hypersphere.studies.reproduce.cloa2024 import lines
from hypersphere.studies.reproduce.cloa2024.accuracies import ANCHORED, BASES
from hypersphere.studies.reproduce.items import as_csv, find, page
from tests.studies.reproduce.cloa2024.worlds import (
    FINDERS,
    ITEMS,
    Made,
    as_published,
    collapsing_lines,
    held,
    judge,
    noise,
    plan_of,
    rate_of,
    scored,
)


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
