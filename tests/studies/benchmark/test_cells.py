"""Cells survive interruptions, and what is divided was measured in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersphere.studies.benchmark.cells import Cell, Cells, expected, ratio


def test_the_last_line_of_a_cell_counts(tmp_path: Path) -> None:
    cells = Cells(tmp_path, {"dim": 4})
    cells.keep(Cell("met", "plain", 64, {"1": 2.0}))
    cells.keep(Cell("met", "plain", 64, {"1": 2.0, "2": 1.0}, bytes=8))
    cells_again = Cells(tmp_path, {"dim": 4}).all()
    assert cells_again == [Cell("met", "plain", 64, {"1": 2.0, "2": 1.0}, bytes=8)]
    assert cells_again[0].seconds == 1.0


def test_half_a_line_is_forgotten_and_the_next_one_is_whole(tmp_path: Path) -> None:
    cells = Cells(tmp_path, {})
    cells.keep(Cell("met", "plain", 64, {"1": 2.0}))
    with cells.path.open("a") as file:
        file.write('{"objective": "met", "by": "pl')
    again = Cells(tmp_path, {})
    again.keep(Cell("met", "plain", 128, {"1": 3.0}))
    assert [cell.size for cell in Cells(tmp_path, {}).all()] == [64, 128]


@pytest.mark.parametrize(
    ("line", "complaint"), [("nonsense\n", "line 1"), ('{"colour": "red"}\n', "line 1"), ("[]\n", "line 1")]
)
def test_a_damaged_file_is_refused_by_line(line: str, complaint: str, tmp_path: Path) -> None:
    Cells(tmp_path, {}).path.write_text(line)
    with pytest.raises(ValueError, match=complaint):
        Cells(tmp_path, {})


def test_cells_of_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    Cells(tmp_path, {"dim": 4, "threads": 2})
    with pytest.raises(ValueError, match="dim 4, not 8"):
        Cells(tmp_path, {"dim": 8, "threads": 2})


def test_cells_of_a_file_that_was_changed_are_measured_again(tmp_path: Path) -> None:
    cells = Cells(tmp_path, {}, {"mine.py:f": "first"})
    cells.keep(Cell("mine.py:f", "plain", 64, {"1": 2.0}))
    cells.keep(Cell("met", "plain", 64, {"1": 2.0}))
    assert [cell.source for cell in Cells(tmp_path, {}, {"mine.py:f": "first"}).all()] == ["first", ""]
    changed = Cells(tmp_path, {}, {"mine.py:f": "second"})
    assert [cell.objective for cell in changed.all()] == ["met"]
    changed.keep(Cell("mine.py:f", "plain", 64, {"1": 3.0}))
    assert Cells(tmp_path, {}, {"mine.py:f": "second"}).get("mine.py:f", "plain", 64).seconds == 3.0


def test_a_ratio_needs_rounds_in_common() -> None:
    ours = Cell("met", "hypersphere", 64, {"monday": 1.0, "tuesday": 4.0})
    assert ratio(ours, Cell("met", "plain", 64, {"tuesday": 2.0})) == 2.0  # not 1.0 / 2.0
    assert ratio(ours, Cell("met", "plain", 64, {"friday": 2.0})) is None


def test_growth_is_foreseen_from_the_last_two_sizes() -> None:
    assert expected([(64, 5.0), (256, 5.0)], 1024) == pytest.approx(20.0)  # at least linearly
    assert expected([(64, 1.0), (256, 16.0)], 1024) == pytest.approx(256.0)
    assert expected([(64, 1.0), (256, 1e6)], 512) == pytest.approx(8e6)  # at most cubically
    assert expected([(64, 1.0)], 128, alone=1.0) == 2.0
    assert expected([(256, 1.0)], 256) is None
