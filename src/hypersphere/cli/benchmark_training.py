"""``hypersphere benchmark training``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hypersphere.cli.answers import console, fail, need_folder
from hypersphere.cli.starting import nothing_begun
from hypersphere.documents import expand


def benchmark_training(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A Hugging Face encoder: hub id or folder.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Sentences, one a line.")],
    batch: Annotated[int, typer.Option(min=2, help="Sentences in a batch.")] = 64,
    steps: Annotated[int, typer.Option(min=6, help="Steps of a round; the first few are not timed.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds, in which the contenders take turns.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each process.")] = 2,
    cache: Annotated[bool, typer.Option("--cache", help="Both with a gradient cache.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for training.json and training.md.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result for machines.")] = False,
) -> None:
    """Sentences per second beside sentence-transformers' trainer.

    Both train on the same text, in processes of their own; peak memory is measured too.
    """
    if not expand(text).is_file():
        fail(f"there is no text file {text}.")
    if out is not None:
        need_folder(out)
    with nothing_begun():
        from hypersphere.studies.benchmark.training import Setting, measure, page, write

    setting = Setting(model, str(expand(text)), batch, steps, threads=threads, cache=cache)
    screen = console(stderr=True)
    try:
        results = measure(setting, repeats, screen.print)
    except ValueError as error:
        fail(f"{error}.")
    typer.echo(json.dumps(results) if as_json else page(results))
    if out is not None:
        try:
            typer.echo(f"Written: {write(results, out)}", err=as_json)
        except OSError as error:
            fail(f"{error.filename or out} cannot be written ({error.strerror}).")
