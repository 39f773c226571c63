"""``hypersphere benchmark objectives``: time and memory by batch size, beside the limit, plain PyTorch and peers."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hypersphere import __version__
from hypersphere.cli.answers import console, fail, need_file, print_table
from hypersphere.cli.own import Imports, import_files
from hypersphere.documents import expand
from hypersphere.figures import draw_growth
from hypersphere.objectives.files import blame
from hypersphere.report import atomic_write
from hypersphere.studies.arguments import INTERRUPTED
from hypersphere.studies.benchmark import summary
from hypersphere.studies.benchmark.cases import OURS, Case, cases, chosen, inputs, source_of, step
from hypersphere.studies.benchmark.cells import Cells
from hypersphere.studies.benchmark.measures import format_duration, free_memory, machine
from hypersphere.studies.benchmark.peers import available_peers, peers_of
from hypersphere.studies.benchmark.run import Benchmark, Moment, Plan

SIZES = "64,256,1024,4096,16384,65536"
OUT = Path("benchmark-objectives")
MOST = 1e9  # gigabytes or seconds: effectively no limit


def option(help: str, *names: str, metavar: str | None = None, at_least: int | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, min=at_least)


def benchmark_objectives(
    only: Annotated[
        list[str] | None, option("This objective only, such as met or mine.py:triplet; repeatable.", metavar="NAME")
    ] = None,
    imports: Imports = None,
    sizes: Annotated[str, option("Batch sizes, of at least 8.", metavar="N,N,…")] = SIZES,
    dim: Annotated[int, option("Width of the embeddings.", metavar="D", at_least=2)] = 128,
    out: Annotated[Path, option("Folder of the results; a rerun continues there.", metavar="DIR")] = OUT,
    json_path: Annotated[Path | None, option("Where the JSON goes, if not to DIR.", "--json", metavar="PATH")] = None,
    csv_path: Annotated[Path | None, option("Where the CSV goes, if not to DIR.", "--csv", metavar="PATH")] = None,
    peers: Annotated[bool, option("Measure other libraries too.", "--peers/--no-peers")] = True,
    repeats: Annotated[
        int, option("Rounds, of which the fastest counts; no more once they last 2 s.", metavar="N", at_least=1)
    ] = 3,
    threads: Annotated[int | None, option("Threads; torch's own number if not given.", metavar="N", at_least=1)] = None,
    max_gb: Annotated[
        float | None,
        option("Memory a cell may take above its inputs; 8, or 3/4 of what is free, if not given.", metavar="GB"),
    ] = None,
    max_seconds: Annotated[float, option("Time one forward and backward may take.", metavar="S")] = 30.0,
    lightly_python: Annotated[
        Path | None, option("Python of an environment with lightly and hypersphere.", metavar="PATH")
    ] = None,
) -> None:
    """Time and memory of every objective against the batch size.

    Forward and backward of each objective with its defaults, beside the bare matrix products (limit), the plain
    PyTorch form and the libraries that compute the same. Every cell has a process of its own; those that are compared
    take turns. What would pass a limit is not run but estimated from smaller sizes, and marked ~. All of it takes
    about half an hour on two quiet cores. Interrupt it at will: the same command continues.
    """
    import_files(imports)
    wanted = _cases(only, peers, dim)
    batch_sizes = _sizes(sizes)
    for value, option in ((max_gb, "--max-gb"), (max_seconds, "--max-seconds")):
        if value is not None and not value > 0:
            fail(f"{option} must be above 0, not {value:g}.")
        if value is not None and value > MOST:
            fail(f"{option} must be at most {MOST:g}, not {value:g}.")
    if lightly_python is not None and not lightly_python.is_file():
        fail(f"there is no Python at {lightly_python} for --lightly-python.")
    files = {"json": json_path or out / "benchmark.json", "csv": csv_path or out / "benchmark.csv"}
    _check_files(files, out)
    threads = threads or torch.get_num_threads()
    about = {"machine": machine(threads), "dim": dim}
    cells = _folder(out, about, {case.label: source for case in wanted if (source := source_of(case))})
    screen = console(stderr=True)
    pythons, absent = available_peers(lightly_python) if peers else ({}, {})
    own = tuple(str(expand(path).resolve()) for path in imports or ())
    plan = Plan(wanted, batch_sizes, dim, threads, repeats, _max_bytes(max_gb), max_seconds, pythons, own)
    _warn(screen, absent, threads)
    finished = _measure(Benchmark(plan, cells), screen)
    results = summary.Summary(cells, {"hypersphere": __version__, **about}, absent)
    if cells.all():
        _show(results)
        _write(results, out, files)
    if not finished:
        typer.echo(f"Stopped; all that was measured is in {cells.path}, and the same command continues.", err=True)
        raise typer.Exit(INTERRUPTED)


def _cases(only: list[str] | None, peers: bool, dim: int) -> list[Case]:
    """Every objective with its defaults, and variants that a peer computes; the user's own are tried out."""
    known = [case for case in cases() if not case.settings or (peers and peers_of(case.label))]
    try:
        wanted = sorted(chosen(only, known), key=lambda case: case.label)
        for case in wanted:
            if source_of(case):
                step(case.create(dim), *inputs(8, dim))
    except ValueError as error:
        fail(blame(error) or f"{str(error).rstrip('.')}.")
    return wanted


def _sizes(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdigit() and int(word) >= 8 for word in words):
        fail(f"--sizes must be whole numbers of at least 8 with commas between them, such as 64,256, not {text!r}.")
    return sorted({int(word) for word in words})


def _check_files(files: dict[str, Path], out: Path) -> None:
    """Checks that each result has a path of its own."""
    taken = {(out / name).resolve() for name in ("cells.jsonl", "settings.json", "benchmark.md", "benchmark.png")}
    for kind, path in files.items():
        if path.resolve() in taken:
            fail(f"--{kind} cannot be {path}, where another result is written; give each a name of its own.")
        taken.add(path.resolve())
        if path.parent != out or path.exists():
            need_file(path)


def _folder(out: Path, about: dict[str, Any], sources: dict[str, str]) -> Cells:
    settings = {"dim": about["dim"], **about["machine"]}
    try:
        return Cells(out, settings, sources)
    except OSError as error:
        fail(f"{out} cannot be the folder of the results ({error.strerror}).")
    except ValueError as error:
        fail(f"{error}; choose another --out.")


def _max_bytes(max_gb: float | None) -> int:
    if max_gb is not None:
        return int(max_gb * 1e9)
    free = free_memory()
    # Whole gigabytes, so that a rerun a moment later gets the same limit.
    return min(8, 8 if free is None else max(int(0.75 * free / 1e9), 1)) * 10**9


def _warn(screen: Console, absent: dict[str, str], threads: int) -> None:
    for peer, why in absent.items():
        screen.print(f"{peer} does not take part: {why}.", style="yellow", soft_wrap=not screen.is_terminal)
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        screen.print("This machine is busy with other work: times will be too long and ratios rough.", style="yellow")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        screen.print(
            "There will be no chart without matplotlib: pip install 'hypersphere-lab[figures]'.", style="yellow"
        )


class Course(AbstractContextManager["Course"]):
    """Shows how far the benchmark is: a bar on a terminal, a line for each group of cells elsewhere."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", style="cyan"),
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=None, left="")
        self._group: tuple[str, int] | None = None

    def __enter__(self) -> Course:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def report(self, now: Moment) -> None:
        left = f"about {format_duration(now.left)} left"
        if self.screen.is_terminal:
            words = f"{now.objective} N={now.size} {now.by}"[:34].ljust(34)
            self.bar.update(self.task, description=words, completed=now.spent, total=now.spent + now.left, left=left)
        elif (now.objective, now.size) != self._group:
            self.screen.print(f"{now.done}/{now.cells} cells; {now.objective}, N = {now.size}; {left}")
        self._group = now.objective, now.size


def _measure(benchmark: Benchmark, screen: Console) -> bool:
    """False if it was interrupted."""
    with Course(screen) as course:
        try:
            benchmark.run(course.report)
        except KeyboardInterrupt:
            return False
    return True


def _show(results: summary.Summary) -> None:
    screen = console()
    for part in results.tables():
        if not part.rows:
            continue
        screen.print(part.title, style="bold")
        table = Table(box=None, padding=(0, 1, 0, 0))
        for place, name in enumerate(part.header):
            table.add_column(name, justify="left" if place < 2 else "right", no_wrap=True, style="cyan" * (place == 0))
        for row in part.rows:
            table.add_row(*row, style="bold" if row[1] == OURS else "")
        print_table(screen, table)
        screen.print()
    for note in results.notes():
        screen.print(f"- {note}", style="dim", soft_wrap=not screen.is_terminal)


def _write(results: summary.Summary, out: Path, files: dict[str, Path]) -> None:
    try:
        written = [
            ("table", atomic_write(out / "benchmark.md", results.as_markdown())),
            ("CSV", atomic_write(files["csv"], results.as_csv())),
            ("JSON", atomic_write(files["json"], results.as_json())),
        ]
        try:
            title = "Objectives: time and memory against the batch size"
            chart = draw_growth(title, results.panels(), OURS, results.notes()[0])
            written.append(("chart", atomic_write(out / "benchmark.png", chart)))
            if small := summary.chart(results.rows(), results.about):
                written.append(("overview", atomic_write(out / "overview.png", small)))
        except ImportError:
            typer.echo("There is no chart without matplotlib: pip install 'hypersphere-lab[figures]'.", err=True)
    except OSError as error:
        fail(f"{error.filename} cannot be written ({error.strerror}); the cells are safe in {results.cells.path}.")
    typer.echo()
    for name, path in [*written, ("cells", results.cells.path)]:
        typer.echo(f"{name}: {path}")
