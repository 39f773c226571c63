"""Measured cells, the file that keeps them (a line after every turn; a cell's last line counts), and their growth."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hypersphere.documents import as_record, parse_json, read_json
from hypersphere.report import atomic_write

REACH = 8  # sizes further apart than this factor are not extrapolated
Known = Sequence[tuple[int, float]]  # sizes in rising order, with the time or memory of each
MEASURED, OVER_MEMORY, OVER_TIME, FAILED = "measured", "over memory", "over time", "failed"


@dataclass
class Cell:
    """One objective by one contestant at one size.

    ``rounds`` are seconds by the name of the round: cells that were measured in the same round were measured in turns.
    ``status`` marks a cell as measured or beyond a limit; beyond a limit, ``expected_…`` are estimates from smaller
    sizes.
    """

    objective: str
    by: str
    size: int
    rounds: dict[str, float] = field(default_factory=dict)
    bytes: int | None = None
    status: str = MEASURED
    limit: float | None = None  # bytes or seconds
    expected_seconds: float | None = None
    expected_bytes: float | None = None
    note: str = ""
    version: str = ""
    source: str = ""  # of a user's own objective: SHA-256 of its file

    @property
    def seconds(self) -> float | None:
        """The fastest round."""
        return min(self.rounds.values(), default=None)


def ratio(cell: Cell, other: Cell) -> float | None:
    """Time of ``cell`` divided by that of ``other``; each time is the fastest of the rounds that both share."""
    shared = cell.rounds.keys() & other.rounds.keys()
    return min(cell.rounds[name] for name in shared) / min(other.rounds[name] for name in shared) if shared else None


class Cells:
    """The cells of a folder. ``keep`` returns once the cell is on disk."""

    def __init__(self, folder: Path, settings: dict[str, Any], sources: Mapping[str, str] | None = None) -> None:
        """``settings``: cells are comparable only under the same ones, so a folder with others is an error.
        ``sources``: the SHA-256 of the file of each user's own objective; cells measured before a change of the file
        are left out."""
        self.sources = dict(sources or {})
        self.path = folder / "cells.jsonl"
        self._cells: dict[tuple[str, str], dict[int, Cell]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._agree(folder, settings)
        if self.path.exists():
            self._load()

    def _agree(self, folder: Path, settings: dict[str, Any]) -> None:
        path = folder / "settings.json"
        if not path.exists():
            if self.path.exists():
                raise ValueError(f"{folder} holds cells but no settings.json to say what they were measured under")
            atomic_write(path, json.dumps(settings, indent=1) + "\n")
            return
        try:
            before = read_json(path, dict)
        except ValueError as error:
            raise ValueError(f"{path} is not readable as JSON ({error})") from None
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(f"{folder} holds cells with {name} {before.get(name)!r}, not {value!r}")

    def _load(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:  # a power failure interrupted the last line
            os.truncate(self.path, len(whole))
        for number, line in enumerate(whole.decode(errors="replace").splitlines(), start=1):
            try:
                cell = as_record(Cell, parse_json(line, "a line"), "a line")
            except ValueError:
                raise ValueError(f"line {number} of {self.path} is not a cell") from None
            if cell.source == self.sources.get(cell.objective, cell.source):
                self.note(cell)

    def note(self, cell: Cell) -> None:
        """Remembers a cell without writing it; its next turn writes it."""
        cell = replace(cell, source=self.sources.get(cell.objective, cell.source))
        self._cells.setdefault((cell.objective, cell.by), {})[cell.size] = cell

    def keep(self, cell: Cell) -> None:
        self.note(cell)
        with self.path.open("ab") as file:
            file.write(json.dumps(asdict(self.get(cell.objective, cell.by, cell.size))).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def get(self, objective: str, by: str, size: int) -> Cell:
        """The noted cell, or a new one without rounds."""
        return self._cells.get((objective, by), {}).get(size) or Cell(objective, by, size)

    def of(self, objective: str, by: str) -> list[Cell]:
        """Cells from the smallest size to the largest."""
        return [cell for _, cell in sorted(self._cells.get((objective, by), {}).items())]

    def all(self) -> list[Cell]:
        return [cell for cells in self._cells.values() for cell in cells.values()]

    def objectives(self) -> list[str]:
        return _unique(objective for objective, _ in self._cells)

    def sizes(self) -> list[int]:
        return sorted({size for cells in self._cells.values() for size in cells})

    def contestants(self, objective: str) -> list[str]:
        return _unique(by for each, by in self._cells if each == objective)


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def expected(known: Known, size: int, alone: float = 2.0, most: float = 3.0, reach: float = REACH) -> float | None:
    """Extrapolates as a power of the size. The exponent comes from the two largest known sizes, between 1 and ``most``;
    it is ``alone`` if only one size is known.

    >>> expected([(64, 1.0)], 128)
    4.0
    >>> expected([(64, 1.0), (128, 8.0)], 256)
    64.0
    >>> expected([(64, 1.0)], 65536) is None
    True
    """
    smaller = [(n, max(taken, 1e-9)) for n, taken in known if n < size]
    if not smaller or size > reach * smaller[-1][0]:
        return None
    n, taken = smaller[-1]
    power = alone
    if len(smaller) > 1:
        before, less = smaller[-2]
        power = min(max(math.log(taken / less) / math.log(n / before), 1.0), most)
    return float(taken * (size / n) ** power)
