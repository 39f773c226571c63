"""Files are replaced whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypersphere.report import markdown_table, write_whole


def test_a_file_is_replaced_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.md"
    write_whole(path, "first")
    assert write_whole(path, b"second") == path
    assert path.read_text() == "second"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_whole(tmp_path / "report.md", "old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_another_may_write_it(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "report.md", "a longer text than the new one")
    write_whole(path, lambda place: place.write_text("new"))
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o644

    def half(place: Path) -> None:
        place.write_text("ha")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, half)
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_table_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells but the header has 2"):
        markdown_table(["a", "b"], [["1"]])
