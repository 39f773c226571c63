"""``hypersphere reproduce``: a table or figure of a paper, computed again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hypersphere.cli.answers import console, fail, need_folder, print_table
from hypersphere.cli.signals import terminable
from hypersphere.cli.train import _aside, _calm
from hypersphere.messages import quoted
from hypersphere.studies.reproduce.catalogue import ITEMS, PAPERS, list_items, paper_of
from hypersphere.studies.reproduce.contest import WHERE, Scale, contests, ended
from hypersphere.studies.reproduce.items import Finding, default_scale
from hypersphere.studies.reproduce.items import reproduce as write_item

_SOURCE = "hypersphere.reproduce"  # items log their progress here


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="PAPER/ITEM", help="What to compute again; a PAPER alone lists its items.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="The same on fewer points, in seconds.")] = False,
    scale: Annotated[
        str | None, typer.Option(metavar="small|full", help="Of items that train; default: full where there is a GPU.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything, or all items of a PAPER.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; default: one for each core.")] = None,
    work: Annotated[Path, typer.Option("--studies", metavar="DIR", help="Folder of the runs.")] = Path("studies"),
    check: Annotated[bool, typer.Option("--check", help="Print what would be trained and how long, and stop.")] = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="List what there is (of a PAPER: its items) with the minutes it takes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """A table or figure of a paper, computed again.

    Writes a figure (PNG and PDF), the data behind it (CSV, JSON) and a page on what the paper claims, what was
    measured, and whether they agree: agrees, partly, does not agree, or undecided. Items that train run studies of
    `hypersphere compare`; interrupted ones continue.
    """
    if name is None and not (show_list or everything):
        fail("name what to reproduce, such as li2024/fig2; --list shows what there is, --all takes everything.")
    if scale not in (None, "small", "full"):
        fail(f"--scale is small or full, not {quoted(scale)}.")
    try:
        names = list_items(name)
    except ValueError as error:
        fail(str(error))
    if check:
        _print_plan(names, _scale(scale))
    elif everything:
        _run_all(names, out, work, scale, jobs)
    elif show_list or name is None or name in PAPERS:
        _print_list(names, as_json)
    else:
        _run(name, out, quick, as_json, scale, work, jobs)


def _scale(wanted: str | None) -> Scale:
    return "full" if wanted == "full" else "small" if wanted == "small" else default_scale()


def _print_plan(names: list[str], scale: Scale) -> None:
    """Prints the contests of some items: runs, time, data."""
    from hypersphere.studies.compare.cells import Plan

    needed = list(dict.fromkeys(each for name in names for each in ITEMS[name].contests))
    for each in needed:
        contest = contests()[each]
        time = f"{contest.gpu_hours:g} hours on a GPU" if scale == "full" else f"{contest.minutes:g} minutes on 2 cores"
        typer.echo(f"{each}: {contest.title}; {Plan(contest.at(scale, Path(each))).count()} runs, about {time}")
        for missing in contest.missing(scale):
            typer.echo(f"  needs {missing}: {WHERE.get(missing, 'data')}")
    total = sum(contests()[each].gpu_hours if scale == "full" else contests()[each].minutes / 60 for each in needed)
    where = "on a GPU" if scale == "full" else "on two cores"
    typer.echo(f"In all about {total:.1f} hours {where} ({scale} scale).")
    typer.echo(f"Start: hypersphere reproduce {' '.join(names) if len(names) == 1 else '--all'} --scale {scale}")


def _run_all(names: list[str], out: Path, work: Path, scale: str | None, jobs: int | None) -> None:
    """Runs one item after the other; lists those that cannot run at the end."""
    wanted = _scale(scale)
    needed = dict.fromkeys(each for name in names for each in ITEMS[name].contests)
    ahead = [each for each in needed if not ended(each, wanted, out)]
    hours = sum(contests()[each].minutes for each in ahead) / 60
    said = f"about {hours:.1f} hours on two cores" if wanted == "small" else "see --check"
    typer.echo(f"{len(names)} items; {len(ahead)} of {len(needed)} contests to run: {said}. Ctrl-C stops, the same "
               "command continues.")  # fmt: skip
    lacking = []
    for each in names:
        try:
            finding, folder = _computed(each, out, False, scale, work, jobs)
            typer.echo(f"{each}: {finding.verdict} ({folder}/finding.md)")
        except FileNotFoundError as error:
            typer.echo(f"{each}: left out: {error}", err=True)
            lacking.append(each)
    if lacking:
        fail(f"{len(lacking)} of {len(names)} items were left out: their data is not here.")


def _computed(
    name: str, out: Path, quick: bool, scale: str | None, work: Path, jobs: int | None
) -> tuple[Finding, Path]:
    try:
        if ITEMS[name].contests:
            _calm()
            with terminable():
                return write_item(name, out, quick, scale=_scale(scale), work=work, jobs=jobs, echo=_aside)
        with course(console(stderr=True), name):
            return write_item(name, out, quick)
    except KeyboardInterrupt:
        typer.echo("Interrupted; the same command continues.", err=True)
        raise typer.Exit(130) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        fail(f"{error.filename or out} cannot be written ({error.strerror})." if error.strerror else f"{error}.")
    except ValueError as error:
        fail(str(error))


def _print_list(names: list[str], as_json: bool) -> None:
    screen = console()
    if as_json:
        typer.echo(json.dumps([_described(each) for each in names], indent=1, ensure_ascii=False))
    elif screen.is_terminal:
        _print_for_eyes(screen, names)
    else:
        _print_for_pipes(names)


def _described(name: str) -> dict[str, Any]:
    item, paper = ITEMS[name], PAPERS[paper_of(name)]
    return {"name": name, "title": item.title, "paper": paper.short, "place": item.place, "minutes": minutes_of(name),
            "contests": list(item.contests)}  # fmt: skip


def minutes_of(name: str) -> float:
    """Minutes of an item at its small scale, training included."""
    item = ITEMS[name]
    return item.minutes + sum(contests()[each].minutes for each in item.contests)


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
                words.append(f"\n{ITEMS[each].place} · {_time(each)}", style="dim")
                table.add_row(each, words)
        print_table(screen, table)
        screen.print()
    screen.print("'hypersphere reproduce PAPER/ITEM' computes one; with --quick, on fewer points.", style="dim")


def _time(name: str) -> str:
    return f"{minutes_of(name):g} min" + (", trains" if ITEMS[name].contests else "")


def _print_for_pipes(names: list[str]) -> None:
    """One line for each, in columns that do not fold."""
    rows = [("name", "title", "paper", "place", "minutes")]
    for each in names:
        told = _described(each)
        rows.append((told["name"], told["title"], told["paper"], told["place"], f"{told['minutes']:g}"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        typer.echo("  ".join([*padded, row[4]]))


def _run(name: str, out: Path, quick: bool, as_json: bool, scale: str | None, work: Path, jobs: int | None) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        fail("the figures need matplotlib: pip install 'hypersphere-lab[figures]'.")
    need_folder(out / name)
    try:
        finding, folder = _computed(name, out, quick, scale, work, jobs)
    except FileNotFoundError as error:
        fail(f"{error}.")
    files = [str(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    if as_json:
        said = {"claim": finding.claim, "measured": finding.measured, "verdict": finding.verdict}
        more = {"clauses": dict(finding.clauses), "errata": finding.errata, "quick": quick, "files": files}
        typer.echo(json.dumps({**_described(name), **said, **more}, indent=1, ensure_ascii=False))
        return
    typer.echo((folder / "finding.md").read_text(encoding="utf-8").split("\n![")[0].rstrip())
    typer.echo()
    for file in files:
        typer.echo(file)


@contextmanager
def course(screen: Console, name: str) -> Iterator[None]:
    """Shows the progress of an item: on a terminal a bar with the time left (a pulse if unknown), elsewhere a line."""
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
