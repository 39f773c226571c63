"""metrics.jsonl: one measurement per line, appended during the run, truncated when the run is resumed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypersphere.documents import json_safe, parse_json

Record = dict[str, Any]
DIGITS = 8  # of a number in the file
LARGEST = 1e308  # replaces infinity, which the verdict on exploding norms must distinguish from NaN


class Journal:
    """The lines of a run, in a file and in memory.

    Lines are written with one system call, so a killed run leaves whole lines. A full disk or a power cut can leave an
    incomplete last line; it is dropped when the file is read.
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        self.records: list[Record] = []
        self.problem = ""  # why lines are no longer written, in words

    def resume(self, step: int) -> None:
        """Keeps the lines up to a step; later ones will be measured again. At step 0 no line is kept."""
        self.records = []
        if self.path is None or not self.path.exists():
            return
        kept = 0
        if step > 0:
            for record, end in _lines(self.path.read_bytes(), broken="stop"):
                if record["step"] > step:
                    break
                self.records.append(record)
                kept = end
        os.truncate(self.path, kept)

    def append(self, records: Sequence[Record]) -> None:
        """Adds lines to file and memory. If the file cannot be written, ``problem`` holds the reason."""
        self.records.extend(records)
        if self.path is None or self.problem:
            return
        text = "".join(json.dumps(json_safe(record, digits=DIGITS, infinity=LARGEST)) + "\n" for record in records)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:
                start = file.tell()
                data = text.encode()
                if file.write(data) != len(data):
                    file.truncate(start)
                    raise OSError("no space left")
        except OSError as error:
            self.problem = f"{self.path} cannot be written ({error}); measuring goes on without it"


def read_journal(path: Path | str) -> list[Record]:
    """The records of a metrics.jsonl, NaN where a number is null; an incomplete last line is dropped.

    A line that is not a record raises an error with its number.
    """
    records = [record for record, _ in _lines(Path(path).read_bytes(), name=str(path))]
    if not records:
        raise ValueError(f"{path} holds no measurement yet")
    return records


def _lines(data: bytes, name: str = "", broken: str = "refuse") -> list[tuple[Record, int]]:
    """Each record with the offset of the byte after its line. ``broken``: refuse a broken line, or stop there."""
    records: list[tuple[Record, int]] = []
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        try:
            record = parse_json(line, "a line", dict)
            if type(record["step"]) is not int or not isinstance(record["split"], str):
                raise ValueError("no measurement")
        except (ValueError, KeyError) as error:
            if broken == "stop":
                break
            raise ValueError(f"line {number} of {name} is not a measurement with a step and a split") from error
        records.append(({k: math.nan if v is None else v for k, v in record.items()}, end))
    return records
