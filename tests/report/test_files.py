"""Files are replaced whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypersphere.report import atomic_write
from hypersphere.report.files import Content, is_stream, remove_unfinished


def test_a_file_is_replaced_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.md"
    atomic_write(path, "first")
    assert atomic_write(path, b"second") == path
    assert path.read_text() == "second"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = atomic_write(tmp_path / "report.md", "old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_another_may_write_it(tmp_path: Path) -> None:
    path = atomic_write(tmp_path / "report.md", "a longer text than the new one")
    atomic_write(path, lambda place: place.write_text("new"))
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o644

    def half(place: Path) -> None:
        place.write_text("ha")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        atomic_write(path, half)
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_what_it_leads_to_keeps_its_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "folder" / "real.md", tmp_path / "link.md"
    link.symlink_to(real)
    atomic_write(link, "first")
    assert link.is_symlink() and real.read_text() == "first"
    real.chmod(0o600)
    atomic_write(link, "second")
    assert link.is_symlink() and real.read_text() == "second" and real.stat().st_mode & 0o777 == 0o600
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    with pytest.raises(OSError, match="symbolic links"):
        atomic_write(tmp_path / "ring", "text")
    assert (tmp_path / "ring").is_symlink()


CONTENTS = {"text": "text", "bytes": b"text", "function": lambda place: place.write_text("text")}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_fifo_is_written_into(tmp_path: Path, content: Content) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write(path, content)
    assert os.read(reader, 100) == b"text" and is_stream(path) and path.is_fifo()
    os.close(reader)
    assert list(tmp_path.iterdir()) == [path]


def test_what_goes_to_a_descriptor_follows_what_was_written_there(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b", buffering=0) as file:
        file.write(b"before, ")
        atomic_write(Path(f"/dev/fd/{file.fileno()}"), "page, ")
        file.write(b"after")
    assert (tmp_path / "log").read_bytes() == b"before, page, after"


def test_only_what_was_not_finished_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".notes.markdown").write_text("mine")
    (tmp_path / "inner" / ".k3j8_a0z.unfinished").mkdir(parents=True)
    (tmp_path / "inner" / ".k3j8_a0z.unfinished" / "report.md").write_text("ha")
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.rglob("*")} == {".notes.markdown", "inner"}
