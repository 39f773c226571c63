"""``hypersphere diagnose``: the health of embeddings in a file, of a run, or of a model on a text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hypersphere.cli.answers import console, need_folder, put, refuse
from hypersphere.diagnostics import Diagnosis
from hypersphere.diagnostics import diagnose as check
from hypersphere.diagnostics.diagnosis import NORMALISED, shown
from hypersphere.diagnostics.files import RUN_FILE, Loaded, load_embeddings, load_labels, text_lines
from hypersphere.report import write_whole

VIEWS = ("one", "dropout")
BATCH = 64
PAGES = (".html", ".htm")


def diagnose(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="npy, npz, safetensors, parquet; a run; or a model."),
    ],
    second: Annotated[Path | None, typer.Argument(metavar="FILE2", help="The second view, row by row.")] = None,
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="FILE is a model: embed the lines of this text.")
    ] = None,
    views: Annotated[
        str, typer.Option("--views", help="Of a model: one, or dropout (two, each with dropout).")
    ] = "one",
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="Classes: .npy, or a text with one in each line.")
    ] = None,
    arrays: Annotated[
        str, typer.Option("--arrays", metavar="A[,B]", help="Names of the arrays or columns that are the views.")
    ] = "",
    sample: Annotated[int, typer.Option("--sample", metavar="N", help="Rows compared all with all.")] = 4096,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Of the sample and of dropout.")
    ] = 0,
    page: Annotated[Path | None, typer.Option("--page", metavar="OUT.html", help="Write a page with pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Health of embeddings: alignment, uniformity, spectrum, neighbours, and a verdict in words.

    Rows are normalised for you. With two views (z1 and z2 of one file, or two files) row i of the second is the
    positive of row i of the first. All rows are read; what needs pairs is taken from a sample, and the answer says so.
    Files may be larger than memory: npy and safetensors are mapped, npz and parquet unpacked to disk and mapped.
    """
    if views not in VIEWS:
        refuse(f"--views is one of {', '.join(VIEWS)}, not {views!r}.")
    if text is not None and second is not None:
        refuse("a model on a text makes its own second view, with --views dropout; leave FILE2 out.")
    if text is None and views != "one":
        refuse("--views is for a model on a text; of files, give FILE2 or one file with z1 and z2.")
    if page is not None:
        _check_page(page, [each for each in (Path(source), second, labels, text) if each is not None])
        _need_matplotlib()
    names = [name.strip() for name in arrays.split(",") if name.strip()]
    if arrays and not names:
        refuse("--arrays names no array.")
    if names and text is not None:
        refuse("--arrays is for a file with several arrays; a model on a text has none.")
    if names and any(path.suffix == ".npy" for path in (Path(source), second) if path is not None):
        refuse("--arrays is for npz, safetensors and parquet; an .npy holds one array, without a name.")
    try:
        if text is not None:
            loaded = _embed(source, text, views, seed)
        elif _is_model(Path(source)) or _is_model(Path(source) / "model"):
            refuse(f"{source} is a model's folder: say which text to embed, with --text FILE.")
        else:
            loaded = load_embeddings(Path(source), second, names, labelled=labels is None)
        if labels is not None:
            loaded = loaded._replace(labels=load_labels(labels))
        found = _check(loaded, sample, seed)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        refuse(f"{(str(error).splitlines() or [type(error).__name__])[0].rstrip('.')}.")
    name = f"{Path(source).name} on {text.name}" if text is not None else Path(source).name
    if page is not None:
        _write_page(found, name, page)
    if as_json:
        read = {"read": loaded.note} if loaded.note else {}
        typer.echo(json.dumps({"source": name, **read, **found.to_dict()}, indent=1))
        return
    _print(found, name, loaded.note)
    if page is not None:
        typer.echo(f"page: {page}")


def _check(loaded: Loaded, sample: int, seed: int) -> Diagnosis:
    """With a bar while the rows are read, if somebody watches."""
    columns = TextColumn("reading rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("rows", total=None)
        return check(
            loaded.z1, loaded.z2, loaded.labels, sample=sample, seed=seed,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip


def _is_model(path: Path) -> bool:
    known = path.is_dir() and not any((place / RUN_FILE).is_file() for place in (path, path.parent))
    return known and any((path / name).is_file() for name in ("modules.json", "config.json"))


def _embed(model: str, text: Path, views: str, seed: int) -> Loaded:
    """The lines of a text as a model (a folder, a run, a hub id) embeds them: in eval mode, or twice with dropout."""
    import torch

    from hypersphere.encoders.checkpoint import find_folder, open_sentence_model

    lines = _lines(text)
    encoder = open_sentence_model(find_folder(model))
    torch.manual_seed(seed)
    order = sorted(range(len(lines)), key=lambda place: len(lines[place]))  # rows of one length: little padding
    give = _with_dropout if views == "dropout" else _as_encoded
    found = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    screen = console(stderr=True)
    hidden = not screen.is_terminal
    with torch.no_grad(), Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
        for view in range(1 + (views == "dropout")):
            task = bar.add_task(f"embedding view {view + 1}", total=len(lines))
            parts: list[Any] = []
            for start in range(0, len(lines), BATCH):
                batch = [lines[place] for place in order[start : start + BATCH]]
                parts.append(give(encoder, batch).float().cpu())
                bar.advance(task, len(batch))
            rows = torch.cat(parts)
            found.append(torch.empty_like(rows).index_copy_(0, torch.tensor(order), rows))
    return Loaded(found[0], found[1] if len(found) > 1 else None, note=_conditions(encoder))


def _as_encoded(encoder: Any, lines: list[str]) -> Any:
    """What the model gives to whoever asks it: with its own prompt, in eval mode, as many dimensions as it keeps."""
    return encoder.encode(lines, convert_to_tensor=True, show_progress_bar=False)


def _with_dropout(encoder: Any, lines: list[str]) -> Any:
    """The same in training mode, which ``encode`` would leave."""
    import torch

    from hypersphere.encoders.checkpoint import default_prompt

    encoder.train()
    features = {name: value.to(encoder.device) if isinstance(value, torch.Tensor) else value
                for name, value in encoder.preprocess(lines, prompt=default_prompt(encoder)).items()}  # fmt: skip
    return encoder(features)["sentence_embedding"][:, : encoder.truncate_dim]


def _conditions(encoder: Any) -> str:
    """What the model does to texts and vectors beyond its modules, if anything."""
    from hypersphere.encoders.checkpoint import default_prompt

    prompt = default_prompt(encoder)
    said = [] if prompt is None else [f"Every line stood after the model's prompt {prompt!r}."]
    said += [] if encoder.truncate_dim is None else [f"The model keeps its first {encoder.truncate_dim} dimensions."]
    return " ".join(said)


def _lines(text: Path) -> list[str]:
    if not text.is_file():
        raise FileNotFoundError(f"there is no text {text}")
    try:
        kept = [line for line in text_lines(text) if line]
    except UnicodeDecodeError as error:
        raise ValueError(f"{text} is not a text in UTF-8") from error
    if len(kept) < 2:
        raise ValueError(f"{text} has {len(kept)} lines of text; a check-up compares at least two")
    return kept


def _check_page(page: Path, inputs: list[Path]) -> None:
    """A page must not take the place of what is read, nor of anything that is no page."""
    need_folder(page.parent)
    if page.exists() and any(os.path.exists(each) and page.samefile(each) for each in inputs):
        refuse(f"--page would write over {page}, which is read here; choose another name.")
    if page.suffix.lower() not in PAGES:
        refuse(f"--page writes HTML: give a name that ends in {' or '.join(PAGES)}, not {page}.")
    if page.is_dir():
        refuse(f"--page is a file, but {page} is a folder.")


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        refuse("a page needs matplotlib for its pictures: pip install 'hypersphere[figures]'.")


def _write_page(found: Diagnosis, name: str, page: Path) -> None:
    from hypersphere.report.diagnosis import diagnosis_page

    try:
        write_whole(page, diagnosis_page(found, name))
    except OSError as error:
        refuse(f"{page} cannot be written ({error.strerror}).")


def _print(found: Diagnosis, name: str, note: str = "") -> None:
    screen = console()
    two = len(found.views) > 1
    screen.print(f"{name}: {found.rows:,} rows of {found.dims} dimensions" + (", two views." if two else "."))
    screen.print()
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=two)
    table.add_column("", style="cyan", no_wrap=True)
    for view in found.views:
        table.add_column(view.name, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for word, values, said in found.table():
        table.add_row(word, *(shown(value) for value in values), *[""] * (len(found.views) - len(values)), said)
    put(screen, table)
    screen.print()
    soft = not screen.is_terminal
    screen.print(" ".join(filter(None, (note, NORMALISED, str(found.sampling)))), style="dim", soft_wrap=soft)
    screen.print()
    screen.print(f"Verdict: {found.verdict}.", style="bold", soft_wrap=soft)
    for finding in found.findings:
        screen.print()
        screen.print(f"{finding.name}: {finding.words}", soft_wrap=soft)
        screen.print(f"  Evidence: {finding.evidence}", soft_wrap=soft)
        screen.print(f"  Remedy: {finding.remedy}", soft_wrap=soft)
