"""``hypersphere train`` and ``hypersphere recipes``."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from hypersphere.cli.answers import console, put, refuse


def train(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or the name of a shipped recipe.")],
    changes: Annotated[
        list[str] | None, typer.Argument(help="key=value, such as objective=met batch.size=128.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was interrupted.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the recipe and print it in full.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Results for machines.")] = False,
) -> None:
    """Train one encoder with any objective; resumable, and it says when something goes wrong."""
    _need(("transformers", "pydantic", "yaml", "accelerate"))
    from hypersphere.training.reading import read_recipe, write_recipe

    try:
        wanted = read_recipe(recipe, changes or [])
    except (ValueError, TypeError, OSError) as error:
        refuse(_ended(error))
    if check:
        typer.echo(write_recipe(wanted), nl=False)
        return
    _calm()
    from hypersphere.training.run import NotPreparedError, UnfinishedError
    from hypersphere.training.run import train as run
    from hypersphere.training.trainer import NotFiniteError

    try:
        finished = run(wanted, resume=resume, say=_aside if as_json else _say)
    except (NotFiniteError, UnfinishedError) as error:
        typer.echo(_ended(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        begun = (Path(wanted.output).expanduser() / "recipe.yaml").is_file()
        then = f"the same command with --resume continues {wanted.output}" if begun else "nothing was begun"
        typer.echo(f"Interrupted; {then}.", err=True)
        raise typer.Exit(130) from None
    except NotPreparedError as error:
        refuse(_ended(error))
    if int(os.environ.get("RANK", "0")) == 0:
        _tell(finished, as_json)


def recipes(
    as_json: Annotated[bool, typer.Option("--json", help="The list for machines.")] = False,
) -> None:
    """List the shipped recipes: hardware, minutes, and the number to expect."""
    _need(("pydantic", "yaml"))
    from rich.table import Table

    from hypersphere.training.reading import read_recipe, shipped

    found = {name: read_recipe(name) for name in shipped()}
    if as_json:
        typer.echo(json.dumps({name: recipe.model_dump() for name, recipe in found.items()}, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("recipe", "what", "hardware", "minutes", "expect"):
        table.add_column(column, overflow="fold")
    for name, recipe in found.items():
        about = recipe.about
        minutes = "not published" if about.minutes is None else f"{about.minutes:g}"
        expect = about.expect if about.measured else f"{about.expect} (published, not run here)" if about.expect else ""
        table.add_row(name, about.summary, about.hardware, minutes, expect)
    put(console(), table)


def _tell(finished: Any, as_json: bool) -> None:
    if as_json:
        from hypersphere.training.plain import plain

        typer.echo(json.dumps(plain({"folder": str(finished.folder), **finished.results})))
        return
    scores = ", ".join(f"{name} {value:.2f}" for name, value in finished.results["scores"].items())
    best = finished.results["best_step"]
    kept = f" (weights of step {best})" if best is not None else ""
    typer.echo(f"{scores}{kept}" if scores else f"{finished.results['steps']} steps done")
    typer.echo(f"Run: {finished.folder}")


def _say(sentence: str) -> None:
    from tqdm.auto import tqdm

    tqdm.write(sentence)


def _aside(sentence: str) -> None:
    """Where it does not stand between the lines of what a program reads."""
    from tqdm.auto import tqdm

    tqdm.write(sentence, file=sys.stderr)


def _need(packages: tuple[str, ...]) -> None:
    from importlib.util import find_spec

    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        refuse(f"training needs {', '.join(missing)}: pip install 'hypersphere[text]' or 'hypersphere[image]'.")


def _calm() -> None:
    """Warnings and progress of the libraries below us that say nothing to a user."""
    warnings.filterwarnings("ignore", module="torch|transformers|accelerate|kornia")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    from transformers.utils import logging as library

    library.disable_progress_bar()  # type: ignore[no-untyped-call]


def _ended(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return words if words.endswith((".", ")", "?")) else f"{words}."
