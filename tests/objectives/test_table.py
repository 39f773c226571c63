"""The table of objectives, and how it is written into a page."""

from __future__ import annotations

from pathlib import Path

import pytest

import hypersphere as hs
from hypersphere.objectives import table
from hypersphere.objectives.registry import objective_class


def test_released_and_printed_forms_are_outside_the_table() -> None:
    assert "released/" not in table.markdown() and "printed/" not in table.markdown()


def test_a_file_without_marks_is_refused_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.md"
    other.write_text("nothing here", encoding="utf-8")
    assert table.main([str(other)]) == 2
    assert "needs the marks" in capsys.readouterr().err
    assert other.read_text(encoding="utf-8") == "nothing here"


def test_a_row_has_the_first_line_of_the_docstring_and_the_own_settings() -> None:
    (row,) = (line for line in table.markdown().splitlines() if line.startswith("| `siglip` "))
    assert row == (
        "| `siglip` | Logistic loss on every pair, with a temperature and a bias that are learned | "
        "`temperature=0.1`, `bias=-10` | Zhai et al. 2023 |"
    )
    assert table.parameters(objective_class("cloa")).startswith("`base=ntxent`, `num_classes`, `dim`, ")  # no default
    assert [line.split("`")[1] for line in table.markdown().splitlines()[2:]] == hs.list_objectives()


def test_the_table_is_replaced_between_its_marks_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{table.BEGIN}\nold\n{table.END}\nthe end\n", encoding="utf-8")
    assert table.main([str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text == f"# Title\n{table.BEGIN}\n{table.markdown()}\n{table.END}\nthe end\n"
    assert table.refresh(text) == text and list(tmp_path.iterdir()) == [page]
    assert table.main([]) == 0 and capsys.readouterr().out == table.markdown() + "\n"
    assert table.main([str(tmp_path / "nowhere.md")]) == 2
    assert "nowhere.md" in capsys.readouterr().err
