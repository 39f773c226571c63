"""The cells of a benchmark as tables, CSV, JSON and the panels of a chart, and the few of them that the README shows.

    python -m hypersphere.studies.benchmark.summary benchmarks/results/objectives README.md

draws ``overview.png`` from the folder's ``benchmark.json`` and puts the small table between the
marks of the given files.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hypersphere.documents import read_json
from hypersphere.figures import Curve, GrowthPanel, draw_growth
from hypersphere.objectives.table import between
from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN
from hypersphere.studies.benchmark.cells import FAILED, MEASURED, OVER_MEMORY, OVER_TIME, Cell, Cells, ratio
from hypersphere.studies.benchmark.measures import format_bytes, format_ratio, format_seconds

Row = dict[str, Any]
ORDER = (OURS, LIMIT, PLAIN)  # then the peers

BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
SHOWN = ("infonce", "ntxent", "dhel", "met", "supcon", "vicreg", "barlow")  # one of each kind; the last is our slowest
DRAWN = ("infonce", "ntxent", "met", "barlow")
KNOWN_BY_ALL = "infonce"  # the objective that is described at the largest size
HEADER = ("objective", "N", "hypersphere", "matmuls alone", "plain PyTorch", "other libraries", "memory", "plain's")


@dataclass(frozen=True)
class Table:
    """Rows of cells under a title; the first two columns are the objective and the contestant."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Summary:
    """The results of a folder of cells. ``about``: the machine and the settings of the measurement; ``absent``: peers
    that did not take part, with the reason."""

    cells: Cells
    about: Mapping[str, Any]
    absent: Mapping[str, str]

    def contestants(self, objective: str) -> list[str]:
        names = self.cells.contestants(objective)
        return [*(by for by in ORDER if by in names), *sorted(by for by in names if by not in ORDER)]

    def objectives(self) -> list[str]:
        return sorted(self.cells.objectives())

    def rows(self) -> list[Row]:
        """One row for each cell, in plain numbers."""
        rows = []
        for objective in self.objectives():
            for by in self.contestants(objective):
                for cell in self.cells.of(objective, by):
                    ours = self.cells.get(objective, OURS, cell.size)
                    rows.append(
                        {
                            "objective": objective,
                            "by": by,
                            "size": cell.size,
                            "status": cell.status,
                            "seconds": cell.seconds,
                            "bytes": cell.bytes,
                            "ours_to_this_seconds": ratio(ours, cell),
                            "ours_to_this_bytes": ours.bytes / cell.bytes if ours.bytes and cell.bytes else None,
                            "rounds": len(cell.rounds),
                            "limit": cell.limit,
                            "expected_seconds": cell.expected_seconds,
                            "expected_bytes": cell.expected_bytes,
                            "note": cell.note,
                            "version": cell.version,
                        }
                    )
        return rows

    def as_json(self) -> str:
        return json.dumps({**self.about, "absent": dict(self.absent), "cells": self.rows()}, indent=1) + "\n"

    def as_csv(self) -> str:
        rows = self.rows()
        written = io.StringIO()
        writer = csv.DictWriter(written, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return written.getvalue()

    def tables(self) -> list[Table]:
        """Time, hypersphere's time divided by the others', memory: objectives down, sizes across."""
        faster = "Time of hypersphere divided by theirs (below 1: hypersphere is faster)"
        return [
            self._table("Time of one forward and backward", _seconds, ()),
            self._table(faster, lambda cell: self._ratio(cell) if cell.status == MEASURED else "", (OURS,)),
            self._table("Peak memory above the inputs", _bytes, (LIMIT,)),
        ]

    def _ratio(self, cell: Cell) -> str:
        return format_ratio(ratio(self.cells.get(cell.objective, OURS, cell.size), cell))

    def _table(self, title: str, show: Callable[[Cell], str], without: Sequence[str]) -> Table:
        sizes = self.cells.sizes()
        rows = []
        for objective in self.objectives():
            shown = ""
            for by in self.contestants(objective):
                if by not in without:
                    known = {cell.size: cell for cell in self.cells.of(objective, by)}
                    values = [
                        "failed" if c and c.status == FAILED else show(c) if c else "" for c in map(known.get, sizes)
                    ]
                    rows.append([objective if shown != objective else "", by, *values])
                    shown = objective
        return Table(title, ["objective", "by", *map(str, sizes)], rows)

    def notes(self) -> list[str]:
        """Notes that the tables need."""
        on = self.about["machine"]
        notes = [
            f"D = {self.about['dim']}, {on['dtype']}, {on['threads']} thread{'s' * (on['threads'] > 1)} of "
            f"{on['processor']}, torch {on['torch']}; fastest of rounds taken in turns.",
            "limit: the matrix products of a straight evaluation and nothing else; the engine may do with fewer.",
        ]
        cells = self.cells.all()
        versions = sorted({f"{cell.by} {cell.version}" for cell in cells if cell.version and cell.by not in ORDER})
        notes += [f"peers: {'; '.join(versions)}."] if versions else []
        over = {(c.status, c.limit) for c in cells if c.status in (OVER_MEMORY, OVER_TIME) and c.limit is not None}
        if over:
            words = " or ".join(_limit(*each) for each in sorted(over, reverse=True))
            notes.append(
                f"~: over the limit ({words}), so not measured but estimated from smaller sizes, time at most as N² "
                "(the CSV says which limit, and whether it was tried)."
            )
        notes += [f"{c.objective} by {c.by} at N = {c.size} failed: {c.note}" for c in cells if c.status == FAILED]
        notes += [f"{peer} did not take part: {why}." for peer, why in self.absent.items()]
        return notes

    def as_markdown(self) -> str:
        parts = ["# Objectives: time and memory against the batch size", *overview(self.rows(), self.about)]
        for table in self.tables():
            parts += [f"## {table.title}", markdown_table(table.header, table.rows)]
        return "\n\n".join([*parts, "\n".join(f"- {note}" for note in self.notes())]) + "\n"

    def panels(self) -> list[GrowthPanel]:
        """Three panels for each objective, against the size: time, the others' time divided by ours, and memory."""
        return [
            GrowthPanel(
                objective,
                self._curves(objective, lambda cell: cell.seconds),
                self._curves(objective, self._to_ours),
                self._curves(objective, lambda cell: cell.bytes),
            )
            for objective in self.objectives()
        ]

    def _to_ours(self, cell: Cell) -> float | None:
        return ratio(cell, self.cells.get(cell.objective, OURS, cell.size))

    def _curves(self, objective: str, value: Callable[[Cell], float | None]) -> list[Curve]:
        curves = []
        for by in self.contestants(objective):
            points = [(cell.size, value(cell)) for cell in self.cells.of(objective, by)]
            beyond = [cell.size for cell in self.cells.of(objective, by) if cell.status in (OVER_MEMORY, OVER_TIME)]
            measured = [(n, v) for n, v in points if v]
            if measured:
                curves.append(Curve(by, measured, min(beyond, default=None)))
        return curves


def _seconds(cell: Cell) -> str:
    return (
        format_seconds(cell.seconds) if cell.status == MEASURED else _about(cell, format_seconds(cell.expected_seconds))
    )


def _bytes(cell: Cell) -> str:
    return format_bytes(cell.bytes) if cell.status == MEASURED else _about(cell, format_bytes(cell.expected_bytes))


def _about(cell: Cell, estimate: str) -> str:
    """The estimated cost of a cell beyond a limit; the limit itself without an estimate."""
    return f"~{estimate}" if estimate else f"> {_limit(cell.status, cell.limit)}"


def _limit(status: str, value: float | None) -> str:
    return format_bytes(value) if status == OVER_MEMORY else f"{value:g} s"


# ---------------------------------------------------------------------------------------------------------- at a glance


def overview(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> list[str]:
    """Paragraphs of Markdown between two marks; empty if no plain form was measured beside ours."""
    lines = [line for name in SHOWN if (line := _line(rows, name)) is not None]
    if not lines:
        return []
    on = about["machine"]
    threads = f"{on['threads']} thread{'s' * (on['threads'] > 1)}"
    begin = f"One forward and backward, {on['dtype']}, D = {about['dim']}, {threads} of {on['processor']}:"
    table = ["| " + " | ".join(cells) + " |" for cells in (HEADER, ["---", *["---:"] * 7], *lines)]
    return ["\n".join([BEGIN, begin, "", *table, "", *_sentences(rows), END])]


def chart(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> bytes:
    """A PNG: time and memory of a few objectives against the batch size; empty if none of them was measured."""
    panels = [
        GrowthPanel(name, _curves(rows, name, "seconds"), [], _curves(rows, name, "bytes"))
        for name in DRAWN
        if any(row["objective"] == name for row in rows)
    ]
    if not panels:
        return b""
    on = about["machine"]
    note = f"hypersphere benchmark: D = {about['dim']}, {on['dtype']}, {on['threads']} threads of {on['processor']}"
    return draw_growth("Time and memory against the batch size", panels, OURS, note, columns=len(panels))


def _line(rows: Sequence[Mapping[str, Any]], name: str) -> list[str] | None:
    """An objective at the largest size at which the plain form was measured as well."""
    own = [row for row in rows if row["objective"] == name and row["status"] == MEASURED]
    size = max((row["size"] for row in own if row["by"] == PLAIN), default=None)
    here = {row["by"]: row for row in own if row["size"] == size}
    if OURS not in here:
        return None
    seconds = {by: format_seconds(row["seconds"]) for by, row in here.items()}
    peers = [f"{by} {seconds[by]}" for by in sorted(seconds) if by not in (OURS, LIMIT, PLAIN)]
    memory = [format_bytes(here[by]["bytes"]) for by in (OURS, PLAIN)]
    return [f"`{name}`", f"{size:,}", seconds[OURS], seconds.get(LIMIT, ""), seconds[PLAIN], ", ".join(peers), *memory]


def _sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """All objectives at the largest size that half of their plain forms reach; then the largest size of all."""
    plain = [row for row in rows if row["by"] == PLAIN]
    names = {row["objective"] for row in plain}
    sizes = sorted({row["size"] for row in plain}, reverse=True)
    measured = {size: [row for row in plain if row["size"] == size and row["ours_to_this_seconds"]] for size in sizes}
    size = next((size for size in sizes if 2 * len(measured[size]) >= len(names)), None)
    sentences = []
    if size is not None:
        times = {row["objective"]: row["ours_to_this_seconds"] for row in measured[size]}
        memory = [row["ours_to_this_bytes"] for row in measured[size] if row["ours_to_this_bytes"]]
        slower = [f"{name} ({format_ratio(value)})" for name, value in sorted(times.items()) if value > 1]
        words = f"Median of {len(times)} objectives at N = {size:,}: {format_ratio(median(times.values()))}"
        words += f" of the plain form's time and {format_ratio(median(memory))} of its memory" if memory else ""
        sentences += [f"{words}.", f"Slower than plain there: {', '.join(slower) or 'none'}."]
    return sentences + _largest(rows)


def _largest(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One objective at the largest size, beside the estimated cost of its plain form."""
    size = max(row["size"] for row in rows)
    here = {row["by"]: row for row in rows if row["objective"] == KNOWN_BY_ALL and row["size"] == size}
    ours, plain = here.get(OURS), here.get(PLAIN)
    if ours is None or ours["status"] != MEASURED or not ours["bytes"]:
        return []
    words = f"At N = {size:,} `{KNOWN_BY_ALL}` takes {format_seconds(ours['seconds'])} and "
    words += format_bytes(ours["bytes"])
    if plain is not None and plain["status"] != MEASURED and plain["expected_bytes"]:
        words += f"; the plain form would need about {format_bytes(plain['expected_bytes'])}"
    return [f"{words}."]


def _curves(rows: Sequence[Mapping[str, Any]], name: str, key: str) -> list[Curve]:
    curves = []
    for by in dict.fromkeys(row["by"] for row in rows if row["objective"] == name):
        own = [row for row in rows if row["objective"] == name and row["by"] == by]
        points = [(row["size"], row[key]) for row in own if row[key]]
        beyond = min((row["size"] for row in own if row["status"].startswith("over")), default=None)
        curves += [Curve(by, points, beyond)] if points else []
    return curves


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print("give the folder of a benchmark, and files with the marks", file=sys.stderr)
        return 2
    folder, *files = map(Path, arguments)
    try:
        about = read_json(folder / "benchmark.json", dict)
        (text,) = overview(about["cells"], about)
        body = text.removeprefix(f"{BEGIN}\n").removesuffix(f"\n{END}")
        fresh = {path: between(path.read_text(encoding="utf-8"), BEGIN, END, body) for path in files}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"{folder}: {error}", file=sys.stderr)
        return 2
    for path, words in fresh.items():
        atomic_write(path, words)
    atomic_write(folder / "overview.png", chart(about["cells"], about))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
