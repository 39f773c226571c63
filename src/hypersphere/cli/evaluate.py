"""``hypersphere evaluate``: similarity and transfer of a sentence encoder, probes of an image encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hypersphere.cli.answers import console, need_file, need_folder, refuse
from hypersphere.data.integrity import known_name
from hypersphere.messages import first_line, printable

Tell = Callable[[str, float, float], None]
LABELS, SEEDS = "0.1,0.5,1.0", 3
POOLINGS = ("cls", "mean", "first-last")  # those of encoders.text, which takes seconds to import


def evaluate(
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="Model folder, hub id, or run folder.")] = None,
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
    cache: Annotated[Path | None, typer.Option("--cache", metavar="DIR", help="Folder of what is done.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep nothing on disk.")] = False,
    mteb: Annotated[list[str] | None, typer.Option("--mteb", metavar="TASK", help="Run this task of mteb too.")] = None,
    probe: Annotated[
        str | None,
        typer.Option("--probe", metavar="NAME", help="Images: linear, mlp (CLOA's), finetune or knn, on a run."),
    ] = None,
    labels: Annotated[str, typer.Option("--labels", metavar="A,B", help="Images: shares of labels.")] = LABELS,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Images: how many draws.")] = SEEDS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """STS and transfer of a sentence encoder, or probes of a run's image encoder.

    Every file of the sets is checked first; a cut or translated copy is refused. Each distinct sentence is encoded
    once, and kept: a run that was interrupted continues, and a second one takes seconds.
    """
    given = {
        "MODEL": model is not None, "--sts": sts is not None, "--transfer": transfer is not None,
        "--tasks": tasks is not None, "--setting": setting != "all", "--fast": fast, "--pooling": pooling is not None,
        "--max-length": max_length is not None, "--embeddings": embeddings is not None,
        "--sentences": sentences is not None, "--cache": cache is not None, "--no-cache": no_cache,
        "--mteb": bool(mteb), "--probe": probe is not None, "--labels": labels != LABELS, "--seeds": seeds != SEEDS,
        "--json": as_json,
    }  # fmt: skip
    _refuse_idle({option for option, there in given.items() if there})
    if tasks is not None and not _listed(tasks):
        refuse("--tasks names no task; leave it out for all.")
    try:
        if pooling is not None:
            known_name(pooling, POOLINGS, "pooling")
        if cache is not None:
            need_folder(cache)
        if sentences is not None:
            answer = _write_sentences(sentences, sts, transfer, _listed(tasks))
        elif probe is not None:
            answer = _probe(model, probe, labels, seeds, as_json)
        else:
            answer = _sentences(
                {"model": model, "sts": sts, "transfer": transfer, "tasks": _listed(tasks), "setting": setting}
                | {"fast": fast, "pooling": pooling, "max_length": max_length, "embeddings": embeddings}
                | {"cache": None if no_cache else cache or "default"},
                mteb or [],
                as_json,
            )
    except (ValueError, TypeError, ImportError, FileNotFoundError, NotADirectoryError) as error:
        refuse(f"{first_line(error).rstrip('.')}.")
    except OSError as error:
        refuse(f"{error.filename or 'a file'} cannot be written or read ({error.strerror}).")
    typer.echo(printable(answer))


def _refuse_idle(given: set[str]) -> None:
    """An option that would change nothing is a misunderstanding, and is refused."""
    folders = {"--sts", "--transfer"}
    rules = (  # if this is given, these say nothing
        ("--sentences", given - {"--sentences", *folders, "--tasks"}, "which only writes the sentences of sets"),
        ("--probe", given - {"--probe", "MODEL", "--labels", "--seeds", "--json"}, "which is for runs on images"),
        ("--embeddings", given & {"--pooling", "--max-length"}, "which were made elsewhere"),
        ("--no-cache", given & {"--cache"}, "which keeps nothing"),
    )
    for option, idle, why in rules:
        if option in given and idle:
            refuse(f"{', '.join(sorted(idle))} cannot go with {option}, {why}.")
    needs = (  # these say nothing without one of those
        ({"--labels", "--seeds"}, {"--probe"}),
        ({"--setting"}, {"--sts"}),
        ({"--fast"}, {"--transfer"}),
        ({"--tasks", "--cache", "--no-cache"}, folders if "--mteb" in given else given),
    )
    for options, wanted in needs:
        if given & options and not given & wanted:
            refuse(f"{', '.join(sorted(given & options))} has no effect without {' or '.join(sorted(wanted))}.")


def _listed(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(",") if word.strip()]


def _write_sentences(path: Path, sts: Path | None, transfer: Path | None, tasks: list[str] | None) -> str:
    from hypersphere.evaluation.sentences import list_sentences

    if path.is_dir():
        refuse(f"--sentences is a file, but {path} is a folder.")
    need_file(path)
    number = list_sentences(path, sts, transfer, tasks)
    return f"{path}: {number} distinct sentences"


def _probe(run: str | None, probe: str, labels: str, seeds: int, as_json: bool) -> str:
    from hypersphere.evaluation.probes import evaluate_run

    if run is None:
        refuse("name the run whose encoder is probed.")
    try:
        shares = [float(share) for share in _listed(labels) or []]
    except ValueError:
        refuse(f"--labels takes shares such as 0.1,0.5,1.0, not {labels!r}.")
    found: Any = evaluate_run(run, probe=probe, labels=shares, seeds=seeds, progress=True)
    return json.dumps(found.to_dict(), indent=1) if as_json else str(found)


def _sentences(options: dict[str, Any], mteb: list[str], as_json: bool) -> str:
    from hypersphere.evaluation.mteb_tasks import run_mteb
    from hypersphere.evaluation.sentences import evaluate_sentences

    model, found, scores = options["model"], None, {}
    if mteb and model is None:
        refuse("--mteb needs a MODEL.")
    if not mteb or options["sts"] or options["transfer"]:
        if model is None and options["embeddings"] is None:
            refuse("name a MODEL (folder or hub id), or give --embeddings FILE.")
        if not options["sts"] and not options["transfer"]:
            refuse("say what to evaluate: --sts DIR, --transfer DIR, or --probe NAME for a run on images.")
        with _course() as tell:
            found = evaluate_sentences(**options, progress=tell)
    if mteb:
        scores = run_mteb(model, mteb, options["pooling"], options["max_length"])
    if as_json:
        return json.dumps((found.to_dict() if found else {}) | ({"mteb": scores} if mteb else {}), indent=1)
    lines = [str(found)] if found else []
    return "\n".join([*lines, *(f"mteb {task}: {score:.2f}" for task, score in scores.items())])


@contextmanager
def _course() -> Iterator[Tell]:
    """A bar with an estimate for everything that takes long, on stderr."""
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        begun: dict[str, TaskID] = {}

        def tell(what: str, done: float, total: float) -> None:
            if what not in begun:
                begun[what] = bar.add_task(what, total=total)
                if not screen.is_terminal:
                    screen.print(what)
            bar.update(begun[what], completed=done, total=total)

        yield tell
