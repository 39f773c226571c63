"""``hypersphere reproduce``: a table or figure of a paper, computed again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hypersphere.cli.answers import console, need_folder, put, refuse
from hypersphere.studies.reproduce.catalogue import ITEMS, PAPERS, list_items, paper_of
from hypersphere.studies.reproduce.items import page
from hypersphere.studies.reproduce.items import reproduce as write_item

_SOURCE = "hypersphere.reproduce"  # items tell here how far they are


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="PAPER/ITEM", help="What to compute again; a PAPER alone lists its items.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="The same on fewer points, in seconds.")] = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="List what there is (of a PAPER: its items) with the minutes it takes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """A table or figure of a paper, computed again.

    Writes a figure (PNG and PDF), the data behind it (CSV) and a page on what the paper claims, what was measured, and
    whether they agree: agrees, partly, does not agree, or undecided.
    """
    if name is None and not show_list:
        refuse("name what to reproduce, such as li2024/fig2; --list shows what there is.")
    try:
        names = list_items(name)
    except ValueError as error:
        refuse(str(error))
    if show_list or name is None or name in PAPERS:
        _print_list(names, as_json)
    else:
        _run(name, out, quick, as_json)


def _print_list(names: list[str], as_json: bool) -> None:
    screen = console()
    if as_json:
        typer.echo(json.dumps([_described(each) for each in names], indent=1, ensure_ascii=False))
    elif screen.is_terminal:
        _print_for_eyes(screen, names)
    else:
        _print_for_pipes(names)


def _described(name: str) -> dict[str, str | float]:
    item, paper = ITEMS[name], PAPERS[paper_of(name)]
    return {"name": name, "title": item.title, "paper": paper.short, "place": item.place, "minutes": item.minutes}


def _print_for_eyes(screen: Console, names: list[str]) -> None:
    """The items below their paper, so that eighty characters are enough."""
    for paper in dict.fromkeys(map(paper_of, names)):
        cited = PAPERS[paper]
        screen.print(Text.assemble((cited.short, "bold"), f": {cited.title} ({cited.venue})"))
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(style="bold cyan", no_wrap=True)
        table.add_column()
        for each in names:
            if paper_of(each) == paper:
                words = Text(ITEMS[each].title)
                words.append(f"\n{ITEMS[each].place} · {ITEMS[each].minutes:g} min", style="dim")
                table.add_row(each, words)
        put(screen, table)
        screen.print()
    screen.print("'hypersphere reproduce PAPER/ITEM' computes one; with --quick, on fewer points.", style="dim")


def _print_for_pipes(names: list[str]) -> None:
    """One line for each, in columns that do not fold."""
    rows = [("name", "title", "paper", "place", "minutes")]
    rows += [tuple(str(value) for value in _described(each).values()) for each in names]  # type: ignore[misc]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        typer.echo("  ".join([*padded, row[4]]))


def _run(name: str, out: Path, quick: bool, as_json: bool) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        refuse("the figures need matplotlib: pip install 'hypersphere-lab[figures]'.")
    need_folder(out / name)
    try:
        with course(console(stderr=True), name):
            finding, folder = write_item(name, out, quick)
    except OSError as error:
        refuse(f"{error.filename or out} cannot be written ({error.strerror}).")
    files = [str(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    if as_json:
        said = {"claim": finding.claim, "measured": finding.measured, "verdict": finding.verdict}
        more = {"clauses": dict(finding.clauses), "errata": finding.errata, "quick": quick, "files": files}
        typer.echo(json.dumps({**_described(name), **said, **more}, indent=1, ensure_ascii=False))
        return
    typer.echo(page(name, finding, quick).split("\n![")[0].rstrip())
    typer.echo()
    for file in files:
        typer.echo(file)


@contextmanager
def course(screen: Console, name: str) -> Iterator[None]:
    """Shows how far an item is: on a terminal a bar with the time left (a pulse if nobody knows), elsewhere a line."""
    log = logging.getLogger(_SOURCE)
    if not screen.is_terminal:
        screen.print(f"computing {name}")
        yield
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=screen, transient=True) as progress:
        bar = progress.add_task(f"computing {name}", total=None)

        class Told(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                done, total = getattr(record, "done", None), getattr(record, "total", None)
                if done is not None and done <= 1:
                    progress.reset(bar)
                progress.update(bar, description=f"{name}: {record.getMessage()}", completed=done, total=total)

        told, level = Told(), log.level
        log.addHandler(told)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(told)
            log.setLevel(level)
