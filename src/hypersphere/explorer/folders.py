"""The folders that the server was given: nothing outside them is ever opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

DEEPEST = 6  # folders below a given one in which runs and studies are looked for
MOST_FOLDERS = 20_000  # looked at in one walk


class NotHereError(FileNotFoundError):
    """A path that names nothing inside the given folders; the answer does not tell whether it exists elsewhere."""


def inside(root: Path, relative: str) -> Path:
    """The file or folder at a path below a root. One that lies outside is refused, also behind a symbolic link.

    >>> inside(Path("/usr"), "../etc/passwd")
    Traceback (most recent call last):
      ...
    hypersphere.explorer.folders.NotHereError: there is nothing of that name here
    """
    parts = relative.split("/") if relative else []
    if any(part in ("", "..") or "\0" in part or "\\" in part for part in parts):
        raise NotHereError("there is nothing of that name here")
    try:
        top, place = root.resolve(), root.joinpath(*parts).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that is too long
        raise NotHereError("there is nothing of that name here") from None
    if not place.is_relative_to(top) or not os.path.exists(place):
        raise NotHereError("there is nothing of that name here")
    return place


def find_folders(root: Path, marks: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Folders at or below a root that hold one of the files ``marks``: their paths relative to the root, and they
    themselves. Symbolic links are not followed, and a folder that is found is not searched further."""
    for seen, (current, folders, files) in enumerate(os.walk(root)):
        relative = Path(current).relative_to(root)
        if seen >= MOST_FOLDERS:
            return
        if any(mark in files for mark in marks):
            yield "" if relative == Path(".") else relative.as_posix(), Path(current)
            folders.clear()
        elif len(relative.parts) >= DEEPEST:
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
