"""``hypersphere evaluate``: similarity and transfer of a sentence encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hypersphere.cli.answers import console, fail, need_file, need_folder
from hypersphere.cli.starting import nothing_begun
from hypersphere.data.integrity import known_name
from hypersphere.documents import locate, read_yaml
from hypersphere.messages import first_line, printable
from hypersphere.studies.arguments import INTERRUPTED

Show = Callable[[str, float, float], None]
POOLINGS = ("cls", "mean", "first-last")  # as in encoders.text, which takes seconds to import


def evaluate(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="Model folder, hub id, or text run.")] = None,
    sts: Annotated[Path | None, typer.Option("--sts", metavar="DIR", help="SentEval's folder, for STS.")] = None,
    transfer: Annotated[
        Path | None, typer.Option("--transfer", metavar="DIR", help="SentEval's folder, for transfer.")
    ] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", metavar="A,B", help="Only these tasks.")] = None,
    setting: Annotated[str, typer.Option("--setting", metavar="NAME", help="STS: all, mean or wmean.")] = "all",
    fast: Annotated[bool, typer.Option("--fast", help="Transfer with 5 folds, to choose among checkpoints.")] = False,
    pooling: Annotated[
        str | None, typer.Option("--pooling", metavar="NAME", help="cls, mean or first-last, not the model's own.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", metavar="N", min=3, help="Tokens, not the model's own limit.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option("--embeddings", metavar="FILE", help="Instead of MODEL: .npy etc. and its .jsonl.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option("--sentences", metavar="FILE", help="Write the sentences to this .jsonl and stop.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Directory for cached embeddings and scores.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep nothing on disk.")] = False,
    mteb: Annotated[list[str] | None, typer.Option("--mteb", metavar="TASK", help="Run this task of mteb too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """STS and transfer scores of a sentence encoder.

    For an image encoder there is hypersphere probe. Every file of the sets is checked first; a cut or translated copy
    is refused. Each distinct sentence is encoded once, and kept: an interrupted evaluation continues, and a second one
    takes seconds.
    """
    given = {
        "MODEL": model is not None, "--sts": sts is not None, "--transfer": transfer is not None,
        "--tasks": tasks is not None, "--setting": setting != "all", "--fast": fast, "--pooling": pooling is not None,
        "--max-length": max_length is not None, "--embeddings": embeddings is not None,
        "--sentences": sentences is not None, "--cache": cache is not None, "--no-cache": no_cache,
        "--mteb": bool(mteb), "--json": as_json,
    }  # fmt: skip
    _refuse_idle({option for option, there in given.items() if there})
    if tasks is not None and not _listed(tasks):
        fail("--tasks names no task; leave it out for all.")
    if model is not None and (run := _image_run(model)):
        fail(f"{model} is an image encoder: hypersphere probe {run}")
    try:
        if pooling is not None:
            known_name(pooling, POOLINGS, "pooling")
        if cache is not None:
            need_folder(cache)
        if sentences is not None:
            answer = _write_sentences(sentences, sts, transfer, _listed(tasks))
        else:
            answer = _sentences(
                {"model": model, "sts": sts, "transfer": transfer, "tasks": _listed(tasks), "setting": setting}
                | {"fast": fast, "pooling": pooling, "max_length": max_length, "embeddings": embeddings}
                | {"cache": None if no_cache else cache or "default"},
                mteb or [],
                as_json,
            )
    except (ValueError, TypeError, ImportError, FileNotFoundError, NotADirectoryError) as error:
        fail(f"{first_line(error).rstrip('.')}.")
    except OSError as error:
        fail(f"{error.filename or 'a file'} cannot be written or read ({error.strerror}).")
    except KeyboardInterrupt:
        kept = "nothing was kept" if no_cache or embeddings else "the same command continues with what is encoded"
        typer.echo(f"Stopped; {kept}.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(printable(answer))


def _image_run(model: str) -> Path | None:
    """The run of the image encoder that MODEL names, by the run's folder or the ``model`` in it; None for any other."""
    place = locate(model)
    run = place.parent if place.name == "model" else place
    try:
        task = read_yaml(run / "recipe.yaml", dict).get("task")
    except (OSError, ValueError, ImportError):
        task = None
    return run if task == "image" or (run / "model" / "encoder.json").is_file() else None


def _refuse_idle(given: set[str]) -> None:
    """Refuses an option without effect: it is a misunderstanding."""
    folders = {"--sts", "--transfer"}
    rules = (  # if the first is given, the others have no effect
        ("--sentences", given - {"--sentences", *folders, "--tasks"}, "which only writes the sentences of sets"),
        ("--embeddings", given & {"--pooling", "--max-length"}, "which were made elsewhere"),
        ("--no-cache", given & {"--cache"}, "which keeps nothing"),
    )
    for option, idle, why in rules:
        if option in given and idle:
            fail(f"{', '.join(sorted(idle))} cannot go with {option}, {why}.")
    needs = (  # the first have no effect without one of the second
        ({"--setting"}, {"--sts"}),
        ({"--fast"}, {"--transfer"}),
        ({"--tasks", "--cache", "--no-cache"}, folders if "--mteb" in given else given),
    )
    for options, wanted in needs:
        if given & options and not given & wanted:
            fail(f"{', '.join(sorted(given & options))} has no effect without {' or '.join(sorted(wanted))}.")


def _listed(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(",") if word.strip()]


def _write_sentences(path: Path, sts: Path | None, transfer: Path | None, tasks: list[str] | None) -> str:
    with nothing_begun():
        from hypersphere.evaluation.sentences import list_sentences

    if path.is_dir():
        fail(f"--sentences is a file, but {path} is a folder.")
    need_file(path)
    num_sentences = list_sentences(path, sts, transfer, tasks)
    return f"{path}: {num_sentences} distinct sentences"


def _sentences(options: dict[str, Any], mteb: list[str], as_json: bool) -> str:
    with nothing_begun():
        from hypersphere.evaluation.mteb_tasks import run_mteb
        from hypersphere.evaluation.sentences import evaluate_sentences

    model, evaluation, scores = options["model"], None, {}
    if mteb and model is None:
        fail("--mteb needs a MODEL.")
    if not mteb or options["sts"] or options["transfer"]:
        if model is None and options["embeddings"] is None:
            fail("name a MODEL (folder or hub id), or give --embeddings FILE.")
        if not options["sts"] and not options["transfer"]:
            fail("name the sets to evaluate on: --sts DIR, --transfer DIR or --mteb TASK.")
        with _course() as show:
            evaluation = evaluate_sentences(**options, progress=show)
    if mteb:
        scores = run_mteb(model, mteb, options["pooling"], options["max_length"])
    if as_json:
        return json.dumps((evaluation.to_dict() if evaluation else {}) | ({"mteb": scores} if mteb else {}), indent=1)
    lines = [str(evaluation)] if evaluation else []
    return "\n".join([*lines, *(f"mteb {task}: {score:.2f}" for task, score in scores.items())])


@contextmanager
def _course() -> Iterator[Show]:
    """Shows a bar with a time estimate for every long operation, on stderr."""
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        begun: dict[str, TaskID] = {}

        def show(what: str, done: float, total: float) -> None:
            if what not in begun:
                begun[what] = bar.add_task(what, total=total)
                if not screen.is_terminal:
                    screen.print(what)
            bar.update(begun[what], completed=done, total=total)

        yield show
