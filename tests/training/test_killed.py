"""A run that is killed at any moment: the command that its message suggests goes on, to the same weights."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hypersphere.cli.app import app
from hypersphere.report.files import unfinished
from hypersphere.training.folder import claimed, describe
from hypersphere.training.reading import parse_recipe
from hypersphere.training.tensorboard import guard_tensorboard
from hypersphere.training.text import prepare_text
from tests.training import worlds
from tests.training.test_safety import assert_same

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SETTINGS: dict[str, Any] = {"steps": 2, "checkpoint": {"every": 1}, "evaluation": {"every": 1}, "monitor": {"every": 1}}


class Killed(BaseException):
    """The process is gone."""


class Disk:
    """Counts what is about to change below a folder; from change number ``last`` on, nothing changes any more."""

    def __init__(self) -> None:
        self.folder, self.last = "", 0
        self.changes: list[str] = []

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.folder or not (event in CHANGES or (event == "open" and given[2] & WRITING)):
            return
        if self.over:
            raise Killed
        if isinstance(given[0], (str, bytes, os.PathLike)) and os.fsdecode(given[0]).startswith(self.folder):
            self.changes.append(f"{event} {os.path.relpath(os.fsdecode(given[0]), self.folder)}")
            if self.over:
                raise Killed

    @property
    def over(self) -> bool:
        return 0 < self.last <= len(self.changes)


DISK = Disk()
sys.addaudithook(DISK)


@contextmanager
def killed_at(folder: Path, last: int = 0) -> Iterator[list[str]]:
    """As SIGKILL at a change of a file below ``folder``: what the program does on its way out changes nothing."""
    DISK.folder, DISK.last, DISK.changes = str(folder), last, []
    try:
        yield DISK.changes
    except Killed:
        pass
    finally:
        DISK.folder = ""


def place_of(name: str, changes: list[str]) -> int:
    """Which change last gave a file its name."""
    return max(place for place, change in enumerate(changes, 1) if change.startswith("os.rename") and name in change)


def begin(folder: Path, resume: bool = False) -> bool:
    """A run as far as its first step; whether one was continued."""
    recipe = parse_recipe(worlds.digits_recipe(folder))
    with claimed(folder / "run", recipe, resume, leader=True) as continued:
        if not continued:
            describe(folder / "run", recipe)
    return continued


def test_a_kill_in_the_first_moments_strands_no_folder(tmp_path: Path) -> None:
    """At every change of a file until the run is described: the same command begins it, and so does --resume unless
    there is nothing at all."""
    with killed_at(tmp_path / "whole" / "run") as changes:
        begin(tmp_path / "whole")
    locked, described = changes.index("open .lock") + 1, place_of("recipe.yaml", changes)
    assert described > locked + 10
    for last in range(1, len(changes) + 1):
        for resume in (False, True):
            folder = tmp_path / f"{last}{resume}"
            with killed_at(folder / "run", last) as seen:
                begin(folder)
            assert len(seen) >= last
            if last > described and not resume:
                with pytest.raises(FileExistsError, match="--resume continues it"):
                    begin(folder)
            elif last <= locked and resume:
                with pytest.raises(FileNotFoundError, match="the same command without --resume begins it"):
                    begin(folder, resume)
            else:
                assert begin(folder, resume) == (last > described)
                assert (folder / "run" / "recipe.yaml").is_file() and not unfinished(folder)


def command(folder: Path, *words: str) -> Result:
    folder.mkdir(exist_ok=True)
    path = worlds.recipe_file(folder, **worlds.digits_recipe(folder, **SETTINGS))
    return CliRunner().invoke(app, ["train", str(path), *words])


def test_a_run_killed_between_best_weights_and_scores_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its best weights have their name, and their scores not yet; at the end the scores are sealed."""
    monkeypatch.setattr("hypersphere.figures.training.save_run", lambda *given, **more: None)
    with killed_at(tmp_path / "whole" / "run") as changes:
        assert command(tmp_path / "whole").exit_code == 0
    folder = tmp_path / "killed"
    with killed_at(folder / "run", place_of("scores.json", changes)):
        command(folder)
    assert unfinished(folder)
    done = command(folder)
    assert done.exit_code == 2 and "holds an unfinished run: --resume continues it" in done.stderr
    assert command(folder, "--resume").exit_code == 0
    assert_same(tmp_path / "whole" / "run", folder / "run")
    assert not unfinished(folder)


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(ValueError, match=r"\.lock cannot be the lock of a run: it is a symbolic link"):
        begin(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_disk_that_is_full_ends_tensorboard_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its thread fails at the first record, or at one in the middle of the run."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    def full(self: Any, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    said: list[str] = []
    tree = worlds.text_recipe(tmp_path, loggers=["tensorboard"], steps=2)
    task = prepare_text(parse_recipe(tree), tmp_path / "run", said.append)
    guard_tensorboard(task.trainer, tmp_path / "run" / "tensorboard", said.append)
    hook = threading.excepthook
    task.trainer.train()
    assert task.trainer.state.global_step == 2 and threading.excepthook is hook
    assert [sentence for sentence in said if "tensorboard cannot be written ([Errno 28] No space left" in sentence]
    assert "Traceback" not in capfd.readouterr().err
