"""``hypersphere diagnose``: the health of embeddings in a file, of a run, or of a model on a text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hypersphere.cli.answers import console, fail, need_file, print_table
from hypersphere.cli.sources import VIEWS, drawn_lines, embed_text, load_source, name_rows, text_views
from hypersphere.diagnostics import Diagnosis
from hypersphere.diagnostics import diagnose as check
from hypersphere.diagnostics.diagnosis import NORMALISED, QUESTION, shown
from hypersphere.diagnostics.files import SUFFIXES, Loaded, load_labels
from hypersphere.messages import first_line, printable
from hypersphere.report import atomic_write
from hypersphere.report.files import is_stream

PAGES = (".html", ".htm")
SAMPLES = 4096  # rows compared all with all


def diagnose(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="npy, npz, safetensors, parquet; a run; or a model."),
    ],
    second: Annotated[Path | None, typer.Argument(metavar="FILE2", help="The second view, row by row.")] = None,
    text: Annotated[
        Path | None,
        typer.Option("--text", metavar="FILE", help="Of a model: the lines to embed. Of a file: what its rows are."),
    ] = None,
    views: Annotated[
        str,
        typer.Option("--views", metavar="KIND", help="Of a model: one, dropout (each line twice), pairs (by tabs)."),
    ] = "",
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="Classes: .npy, or a text with one in each line.")
    ] = None,
    arrays: Annotated[
        str, typer.Option("--arrays", metavar="A[,B]", help="Names of the arrays or columns that are the views.")
    ] = "",
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", help="Rows compared all with all (4096); of a model, lines embedded."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Of the sample and of dropout.")
    ] = 0,
    page: Annotated[Path | None, typer.Option("--page", metavar="OUT.html", help="Write a page with pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Has it collapsed? Yes or no, the evidence, and what to do.

    Then alignment, uniformity, spectrum and neighbours. Raw rows are normalised first. With two views (z1 and z2 of one
    file, or two files) row i of the second is the positive of row i of the first. All rows are read; measures of pairs
    use a sample, and the answer gives its size.
    Files may be larger than memory: npy and safetensors are mapped, npz and parquet unpacked to disk and mapped.

    A model embeds a sample of the lines of a text, 512 or 256 pairs, in a minute: hypersphere diagnose MODEL --text
    lines.txt. Two texts in every line, separated by a tab, are two views.
    """
    if views and views not in VIEWS:
        fail(f"--views is one of {', '.join(VIEWS)}, not {views!r}.")
    model = text is not None and Path(source).suffix not in SUFFIXES
    if model and second is not None:
        fail("a model on a text makes its own second view, with --views dropout; leave FILE2 out.")
    if not model and views:
        fail("--views is for a model on a text; of files, give FILE2 or one file with z1 and z2.")
    if samples is not None and samples < 2:
        fail(f"--samples is at least 2, not {samples}.")
    if page is not None:
        _check_page(page, [each for each in (Path(source), second, labels, text) if each is not None])
        _need_matplotlib()
    names = [name.strip() for name in arrays.split(",") if name.strip()]
    if arrays and not names:
        fail("--arrays names no array.")
    if names and model:
        fail("--arrays is for a file with several arrays; a model on a text has none.")
    if names and any(path.suffix == ".npy" for path in (Path(source), second) if path is not None):
        fail("--arrays is for npz, safetensors and parquet; an .npy holds one array, without a name.")
    try:
        if model and text is not None:
            loaded = embed_text(source, text, text_views(text, views, "one"), seed, samples)
        else:
            loaded = load_source(Path(source), second, names, labelled=labels is None)
            loaded = loaded if text is None else name_rows(loaded, text)
        if labels is not None:
            loaded = loaded._replace(labels=_drawn_labels(load_labels(labels), loaded))
        diagnosis = _check(loaded, samples or SAMPLES, seed)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        fail(f"{first_line(error).rstrip('.')}.")
    name = f"{Path(source).name} on {text.name}" if model and text is not None else Path(source).resolve().name
    name = printable(name)
    if loaded.drawn is not None:
        used = f"{drawn_lines(loaded, seed)}; rows are counted among them.".capitalize()
        loaded = loaded._replace(note=f"{used} {loaded.note}".rstrip())
    if page is not None:
        _write_page(diagnosis, name, page, loaded.note)
    if as_json:
        read = {"read": loaded.note} if loaded.note else {}
        typer.echo(json.dumps({"source": name, **read, **diagnosis.to_dict()}, indent=1))
        return
    _print(diagnosis, name, loaded.note)
    if page is not None:
        typer.echo(f"page: {page}")


def _drawn_labels(labels: Any, loaded: Loaded) -> Any:
    """The labels of the lines that were embedded, from one for each line."""
    if loaded.drawn is None or len(labels) != loaded.lines:
        return labels
    return [labels[line] for line in loaded.drawn]


def _check(loaded: Loaded, sample: int, seed: int) -> Diagnosis:
    """Diagnoses the rows, with a progress bar on a terminal."""
    columns = TextColumn("reading rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("rows", total=None)
        return check(
            loaded.z1, loaded.z2, loaded.labels, texts=loaded.texts, sample=sample, seed=seed,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip


def _check_page(page: Path, inputs: list[Path]) -> None:
    """Refuses a page that would overwrite an input, or whose name is not that of a page."""
    if page.exists() and any(os.path.exists(each) and page.samefile(each) for each in inputs):
        fail(f"--page would write over {page}, which is read here; choose another name.")
    if page.suffix.lower() not in PAGES and not is_stream(page):
        fail(f"--page writes HTML: give a name that ends in {' or '.join(PAGES)}, not {page}.")
    if page.is_dir():
        fail(f"--page is a file, but {page} is a folder.")
    need_file(page)


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        fail("a page needs matplotlib for its pictures: pip install 'hypersphere-lab[figures]'.")


def _write_page(diagnosis: Diagnosis, name: str, page: Path, note: str) -> None:
    from hypersphere.report.diagnosis import diagnosis_page

    try:
        atomic_write(page, diagnosis_page(diagnosis, name, note))
    except OSError as error:
        fail(f"{page} cannot be written ({error.strerror}).")


def _print(diagnosis: Diagnosis, name: str, note: str = "") -> None:
    """Prints the answer, the findings and the rows to look at, then the numbers."""
    screen = console()
    two = len(diagnosis.views) > 1
    soft = not screen.is_terminal
    screen.print(f"{name}: {diagnosis.rows:,} rows of {diagnosis.dims} dimensions" + (", two views." if two else "."))
    if note:
        screen.print(note, soft_wrap=soft)
    screen.print()
    screen.print(f"{QUESTION} {diagnosis.answer}", style="bold", soft_wrap=soft)
    screen.print(f"Verdict: {diagnosis.verdict}.", style="bold", soft_wrap=soft)
    for finding in diagnosis.findings:
        screen.print()
        screen.print(f"{finding.name}: {finding.words}", soft_wrap=soft)
        screen.print(f"  Evidence: {finding.evidence}", soft_wrap=soft)
        screen.print(f"  Remedy: {finding.remedy}", soft_wrap=soft)
    if rows := diagnosis.rows_to_look_at():
        screen.print()
        screen.print("Rows to look at, counted from 0:")
    for kind, which, texts in rows:
        screen.print(Text(printable(f"  {kind}: {which} {texts}".rstrip())), soft_wrap=soft)
    screen.print()
    print_table(screen, _numbers(diagnosis))
    screen.print()
    screen.print(f"{NORMALISED} {diagnosis.sampling}", style="dim", soft_wrap=soft)


def _numbers(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=len(diagnosis.views) > 1)
    table.add_column("", style="cyan", no_wrap=True)
    for view in diagnosis.views:
        table.add_column(view.name, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for word, values, said in diagnosis.table():
        table.add_row(word, *(shown(value) for value in values), *[""] * (len(diagnosis.views) - len(values)), said)
    return table
