"""Checkpoints with an integrity check: each is sealed when its last byte is written, and verified before use."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path

from hypersphere.documents import read_json
from hypersphere.report import atomic_write
from hypersphere.report.files import sync

SEAL = "sealed.json"
FEWEST = 4  # checkpoints of a run


def seal(folder: Path) -> None:
    """Records size and hash of every file, as the last write. A checkpoint without a seal was never finished. Sealed
    files are on the disk."""
    files = _files(folder)
    record = {str(path.relative_to(folder)): digest(path) for path in files}
    for path in (*files, *{path.parent for path in files}, folder.parent):
        sync(path)
    atomic_write(folder / SEAL, json.dumps(record, indent=1))


def trouble(folder: Path) -> str:
    """What is wrong with a checkpoint, or nothing."""
    try:
        record = read_json(folder / SEAL, dict)
    except FileNotFoundError:
        return "was not finished"
    except (OSError, ValueError):
        return "has an unreadable seal"
    for name, expected in record.items():
        path = folder / name
        if not path.is_file():
            return f"lacks {name}"
        if digest(path) != expected:
            return f"has a damaged {name}"
    return ""


def newest_whole(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and a sentence for each newer one that is not."""
    said: list[str] = []
    for checkpoint in sorted(numbered(folder), key=step_of, reverse=True):
        wrong = trouble(checkpoint)
        if not wrong:
            return checkpoint, said
        said.append(f"{checkpoint.name} {wrong}; it is not used")
    return None, said


def last_sealed(folder: Path) -> int | None:
    """The step of the newest checkpoint that was finished; its files are not read."""
    return max((step_of(each) for each in numbered(folder) if (each / SEAL).is_file()), default=None)


def steps_between(every: int, steps: int) -> int:
    """Steps between checkpoints: ``every``, or fewer in a run that would be saved less than four times.

    >>> steps_between(500, 2000), steps_between(200, 182), steps_between(500, 3)
    (500, 45, 1)
    """
    return every if math.ceil(steps / every) >= FEWEST else max(1, steps // FEWEST)


def remove_later(folder: Path, step: int) -> None:
    """Removes checkpoints beyond ``step``: they are damaged, and the run will write them again."""
    for checkpoint in numbered(folder):
        if step_of(checkpoint) > step:
            shutil.rmtree(checkpoint, ignore_errors=True)


def numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, whole or not."""
    candidates = folder.glob("checkpoint-*") if folder.is_dir() else []
    return [path for path in candidates if path.is_dir() and path.name.rsplit("-", 1)[1].isdigit()]


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)


def digest(path: Path) -> list[int | str]:
    """Size and hash of a file."""
    with path.open("rb") as file:
        return (
            [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
            if hasattr(hashlib, "file_digest")
            else [path.stat().st_size, hashlib.sha256(file.read()).hexdigest()]
        )
