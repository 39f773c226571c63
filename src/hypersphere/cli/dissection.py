"""The answer of ``hypersphere dissect``: tables, words, JSON and figures."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from hypersphere.anatomy import Anatomy, AngleGrid, form_settings
from hypersphere.anatomy.anatomy import KEPT, LEGEND
from hypersphere.cli.answers import console, fail, print_table
from hypersphere.documents import json_safe
from hypersphere.objectives import Objective
from hypersphere.report import atomic_write

GRID = AngleGrid(points=32, batches=64)
AT_ONCE = 6  # columns of a table, or of a figure
SWEPT = {
    KEPT: "kept",
    "anchors with gradient": "moving",
    "effective negatives": "negatives",
    "weight of the hardest": "hardest",
    "mean ratio": "ratio",
    "Lemma 1's lower end, median": "lower end",
}


@dataclass(frozen=True)
class Case:
    """One objective, its title, and its value of the swept setting, if it has that setting."""

    name: str
    title: str
    objective: Objective
    value: Any = None


@dataclass(frozen=True)
class Question:
    """The subject of the answer."""

    about: str
    step: float
    negative: str
    setting: str = ""  # the swept setting, if any
    values: tuple[Any, ...] = ()
    note: str = ""


def print_answer(cases: Sequence[Case], anatomies: Sequence[Anatomy], asked: Question) -> None:
    screen = console()
    soft = not screen.is_terminal
    screen.print(f"On {asked.about}; scope {anatomies[0].scope}{asked.note}.", soft_wrap=True)
    screen.print()
    if asked.setting:
        _swept(screen, cases, anatomies, asked)
    else:
        for start in range(0, len(cases), AT_ONCE):
            _table(screen, cases[start : start + AT_ONCE], anatomies[start : start + AT_ONCE], asked)
            screen.print()
        for each in anatomies:
            screen.print(f"{each.name}: {each.verdict(asked.step, asked.negative)}", soft_wrap=soft)
    screen.print()
    for word, meaning in LEGEND.items():
        screen.print(f"{word}: {meaning}", style="dim", soft_wrap=soft)
    screen.print()
    for conventions in dict.fromkeys(each.conventions for each in anatomies):
        screen.print(f"Conventions: {conventions}.", style="dim", soft_wrap=soft)


def _table(screen: Console, cases: Sequence[Case], anatomies: Sequence[Anatomy], asked: Question) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="cyan", no_wrap=True)
    for case in cases:
        table.add_column(case.title, justify="right")
    numbers = [each.numbers(asked.step, asked.negative) for each in anatomies]
    for row in numbers[0]:
        table.add_row(row, *(_cell(each[row]) for each in numbers))
    print_table(screen, table)


def _swept(screen: Console, cases: Sequence[Case], anatomies: Sequence[Anatomy], asked: Question) -> None:
    """One row for each value of the setting."""
    lemma = f"meeting Lemma 1 (λ={asked.step:g}, {asked.negative})"
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="cyan", no_wrap=True)
    for heading in (*SWEPT.values(), "Lemma 1"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case, each in zip(cases, anatomies, strict=True):
        numbers = each.numbers(asked.step, asked.negative)
        table.add_row(case.title, *(_cell(numbers[key]) for key in (*SWEPT, lemma)))
    print_table(screen, table)
    screen.print()
    screen.print(
        "kept: gradient kept; moving: share of the anchors with gradient; negatives: effective negatives; hardest: "
        "weight of the hardest; lower end: median of Lemma 1's lower end; Lemma 1: share of the anchors that meet it.",
        style="dim", soft_wrap=not screen.is_terminal,
    )  # fmt: skip


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def as_json(cases: Sequence[Case], anatomies: Sequence[Anatomy], asked: Question, files: list[Path]) -> dict[str, Any]:
    return {
        "batch": asked.about,
        "scope": anatomies[0].scope,
        **({"swept": {"setting": asked.setting, "values": list(asked.values)}} if asked.setting else {}),
        "objectives": [
            {
                "objective": case.name,
                "as": each.name,
                "scope": each.scope,
                "numbers": json_safe(each.numbers(asked.step, asked.negative)),
                "verdict": each.verdict(asked.step, asked.negative),
                "conventions": each.conventions,
            }
            for case, each in zip(cases, anatomies, strict=True)
        ],
        "legend": LEGEND,
        "figures": [str(path) for path in files],
    }


def draw(
    cases: Sequence[Case], anatomies: Sequence[Anatomy], asked: Question, out: Path, kinds: Sequence[str]
) -> list[Path]:
    """Draws figures of the batch, and maps over the angles for objectives with a closed form."""
    try:
        import matplotlib  # noqa: F401

        from hypersphere.figures.anatomy import plot
        from hypersphere.figures.maps import component_maps
        from hypersphere.figures.sweep import plot_sweep
    except ImportError:
        typer.echo("There are no figures without matplotlib: pip install 'hypersphere-lab[figures]'.", err=True)
        return []
    if asked.setting:
        curves: dict[str, list[Anatomy]] = {}
        for case, each in zip(cases, anatomies, strict=True):
            curves.setdefault(case.name, []).append(each)
        figures = {
            "sweep": plot_sweep(asked.setting, asked.values, curves, asked.step, asked.negative, source=asked.about)
        }
    else:
        titles = [each.name for each in anatomies[:AT_ONCE]]
        figures = {"anatomy": plot(anatomies[:AT_ONCE], asked.step, asked.negative, source=asked.about, names=titles)}
    if len(anatomies) > AT_ONCE:
        typer.echo(f"The figures are of the first {AT_ONCE} of {len(anatomies)}.", err=True)
    closed = [case for case in cases[:AT_ONCE] if _has_form(case.objective)]
    if closed:
        figures["maps"] = component_maps([each.objective for each in closed], GRID, [each.title for each in closed])
    written = []
    try:
        for name, figure in figures.items():
            for kind in kinds:
                page = io.BytesIO()
                figure.savefig(page, format=kind, dpi=150)
                written.append(atomic_write(out / f"{name}.{kind}", page.getvalue()))
    except OSError as error:
        fail(f"{error.filename or out} cannot be written ({error.strerror}).")
    return written


def _has_form(objective: Objective) -> bool:
    """Whether maps over the angles can be drawn; prints the reason if not."""
    try:
        form_settings(objective)
    except ValueError as error:
        typer.echo(f"No maps of {objective.name}: {str(error).partition(' (there are')[0]}.", err=True)
        return False
    return True
