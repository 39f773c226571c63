"""The cells of a benchmark as tables, CSV, JSON and the panels of a chart."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypersphere.figures import Curve, GrowthPanel
from hypersphere.report import markdown_table
from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN
from hypersphere.studies.benchmark.cells import FAILED, MEASURED, OVER_MEMORY, OVER_TIME, Cell, Cells, ratio
from hypersphere.studies.benchmark.measures import format_bytes, format_ratio, format_seconds
from hypersphere.studies.benchmark.overview import overview

Row = dict[str, Any]
ORDER = (OURS, LIMIT, PLAIN)  # then the peers


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
