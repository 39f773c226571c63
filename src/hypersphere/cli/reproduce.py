"""``hypersphere reproduce``: a table or figure of a paper, computed again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hypersphere.cli.answers import console, need_folder, refuse
from hypersphere.studies.reproduce import list_items
from hypersphere.studies.reproduce.items import find
from hypersphere.studies.reproduce.items import reproduce as write_item

_SOURCE = "hypersphere.reproduce"  # items tell here how far they are


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="PAPER/ITEM", help="What to compute again.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="The same on fewer points, in seconds.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List what there is and stop.")] = False,
) -> None:
    """A table or figure of a paper, computed again.

    Writes a figure (PNG and PDF), the data behind it (CSV) and a page on what the paper claims, what was measured, and
    whether they agree.
    """
    if show_list:
        for each in list_items():
            typer.echo(each)
        return
    if name is None:
        refuse("name what to reproduce, such as li2024/fig2; --list shows what there is.")
    try:
        find(name)
    except ValueError as error:
        refuse(f"{error}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        refuse("the figures need matplotlib: pip install 'hypersphere[figures]'.")
    need_folder(out / name)
    try:
        with course(console(stderr=True), name):
            page = write_item(name, out, quick)
    except OSError as error:
        refuse(f"{error.filename or out} cannot be written ({error.strerror}).")
    typer.echo(page.read_text(encoding="utf-8").split("\n![")[0].rstrip())
    typer.echo()
    for path in sorted(page.parent.iterdir()):
        if not path.name.startswith("."):
            typer.echo(str(path))


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
