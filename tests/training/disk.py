"""A disk on which nothing changes any more from a given change on, as if the process were killed there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


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
