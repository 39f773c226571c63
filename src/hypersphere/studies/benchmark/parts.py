"""Parts of a long measurement, kept beside its result until all of them are there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypersphere.documents import read_json
from hypersphere.report import write_whole
from hypersphere.studies.benchmark.timing import duration

Part = dict[str, Any]


class Parts:
    """What was measured so far: each part is on the disk as soon as it is there, and a rerun begins with them."""

    def __init__(self, result: Path | None, settings: dict[str, Any]) -> None:
        """``result``: the file that all of it is for, if any. Parts measured under other ``settings`` are refused."""
        self.settings = settings
        self.path = None if result is None else result.with_suffix(".part.json")
        if result is not None:
            _check_place(result)
        self.found = self._before(self.path) if self.path is not None and self.path.exists() else {}

    def _before(self, path: Path) -> dict[str, Part]:
        try:
            kept = read_json(path, dict)
            settings, found = dict(kept["settings"]), {name: dict(part) for name, part in kept["parts"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} does not hold parts of a measurement; move it away to begin anew.") from None
        for name, value in self.settings.items():
            if settings.get(name) != value:
                raise ValueError(
                    f"{path} holds parts measured with {name} {settings.get(name)!r}, not {value!r}: "
                    "ask for the same again to continue, or move it away to begin anew."
                )
        return found

    def measure(self, wanted: Mapping[str, Callable[[], Part]], say: Callable[[str], None]) -> None:
        """Measures what is missing; says what comes next, and how long the rest may take once that can be told."""
        missing = [name for name in wanted if name not in self.found]
        began = time.perf_counter()
        for number, name in enumerate(missing):
            words = f"{len(wanted) - len(missing) + number + 1}/{len(wanted)} {name.replace('_', ' ')}"
            if number:
                each = (time.perf_counter() - began) / number
                words += f"; about {duration(each * (len(missing) - number))} left"
            say(words)
            self.found[name] = wanted[name]()
            if self.path is not None:
                write_whole(self.path, json.dumps({"settings": self.settings, "parts": self.found}, indent=1) + "\n")

    def finish(self) -> None:
        """All of it is written where it belongs."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _check_place(path: Path) -> None:
    """Before an hour of work, not after it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{path.parent} cannot be a folder ({error.strerror}).") from None
    if path.is_dir():
        raise ValueError(f"{path} is a folder, so nothing can be written there.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"nothing can be written in {path.parent}.")
