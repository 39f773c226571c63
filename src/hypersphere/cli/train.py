"""``hypersphere train`` and ``hypersphere recipes``."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from hypersphere.cli.answers import console, fail, need_folder, print_table, show_trace
from hypersphere.cli.own import Imports, import_files
from hypersphere.cli.starting import nothing_begun
from hypersphere.documents import expand
from hypersphere.messages import printable, reason


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of a shipped recipe.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Overrides it, such as objective=dhel batch.size=128."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was interrupted.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the recipe, and print what has an effect.")
    ] = False,
    keys: Annotated[
        bool, typer.Option("--keys", help="List the keys of recipes: all, or --keys text, image or three-lines.")
    ] = False,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Results for machines.")] = False,
) -> None:
    """Train one encoder with any objective.

    Ctrl-C saves the step under way, and --resume continues it. A monitor warns when something goes wrong.
    """
    _need(("transformers", "pydantic", "yaml", "accelerate"))
    if keys:
        _list_keys(recipe, bool(changes or resume or check), as_json)
        return
    if recipe is None:
        fail("name a recipe: hypersphere recipes lists the shipped ones, hypersphere train --keys what they hold.")
    with nothing_begun():
        from hypersphere.training.load import read_recipe, write_recipe

    import_files(imports)
    try:
        wanted = read_recipe(recipe, changes or [])
    except (ValueError, TypeError, OSError) as error:
        fail(_ended(error))
    if check:
        typer.echo(write_recipe(wanted, about=False), nl=False)
        return
    need_folder(expand(wanted.output))
    with nothing_begun():
        _calm()
        import hypersphere.training.interruption  # noqa: F401  (with what it takes seconds to import)
        from hypersphere.training.finish import UnfinishedError
        from hypersphere.training.folder import prospect
        from hypersphere.training.run import NotPreparedError
        from hypersphere.training.run import train as run
        from hypersphere.training.trainer import NotFiniteError

    leader = int(os.environ.get("RANK", "0")) == 0
    try:
        finished = run(wanted, resume=resume, echo=_aside if as_json else _echo)
    except (NotFiniteError, UnfinishedError) as error:
        show_trace()
        typer.echo(_ended(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt as interrupt:
        if leader:
            typer.echo(f"Interrupted; {prospect(expand(wanted.output))}.", err=True)
        raise typer.Exit(128 + getattr(interrupt, "signal", signal.SIGINT)) from None
    except NotPreparedError as error:
        fail(_ended(error))
    if not leader:
        _leave()
    _print_results(finished, as_json)


def _leave() -> NoReturn:
    """Ends a process other than the first one without unloading its libraries.

    During unloading, a library's thread that is still in native code aborts the process now and then. The launcher
    would then end the first process too, which still evaluates and saves.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _list_keys(task: str | None, more: bool, as_json: bool) -> None:
    """Prints the table of keys: all, or those that can have an effect in a task."""
    from rich.table import Table

    from hypersphere.names import did_you_mean
    from hypersphere.training.keys import COLUMNS, recipe_keys
    from hypersphere.training.recipe import TASKS

    if more:
        fail("--keys only lists keys: it goes with a task and --json, with nothing else.")
    if task is not None and task not in TASKS:
        fail(f"--keys takes a task, {', '.join(TASKS)}, not {task!r}{did_you_mean(task, TASKS) or '.'}")
    keys = recipe_keys(task)
    if as_json:
        typer.echo(json.dumps([key._asdict() for key in keys], indent=1))
        return
    table = Table(box=None, pad_edge=False, expand=True)
    for column, ratio in zip(COLUMNS, (None, 3, None, 5, 3), strict=True):
        table.add_column(column, overflow="fold", ratio=ratio, no_wrap=ratio is None)
    for key in keys:
        table.add_row(*key.cells())
    print_table(console(), table)


def recipes(
    as_json: Annotated[bool, typer.Option("--json", help="The list for machines.")] = False,
) -> None:
    """List the shipped recipes, with minutes and results.

    Each with its hardware, its minutes there, and the number to expect.
    """
    _need(("pydantic", "yaml"))
    from rich.table import Table

    from hypersphere.training.load import read_recipe, shipped

    shipped_recipes = {name: read_recipe(name) for name in shipped()}
    if as_json:
        typer.echo(json.dumps({name: recipe.model_dump() for name, recipe in shipped_recipes.items()}, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("recipe", "what", "hardware", "minutes", "expect"):
        table.add_column(column, overflow="fold")
    for name, recipe in shipped_recipes.items():
        about = recipe.about
        minutes = "not published" if about.minutes is None else f"{about.minutes:g}"
        expect = about.expect if about.measured else f"{about.expect} (published, not run here)" if about.expect else ""
        table.add_row(name, about.summary, about.hardware, minutes, expect)
    print_table(console(), table)


def _print_results(finished: Any, as_json: bool) -> None:
    if as_json:
        from hypersphere.documents import json_safe

        typer.echo(json.dumps(json_safe({"folder": str(finished.folder), **finished.results})))
        return
    scores = ", ".join(f"{name} {value:.2f}" for name, value in finished.results["scores"].items())
    best = finished.results["best_step"]
    kept = f" (weights of step {best})" if best is not None else ""
    typer.echo(f"{scores}{kept}" if scores else f"{finished.results['steps']} steps done")
    typer.echo(printable(f"Run: {finished.folder}"))
    if finished.results["outcome"]:
        typer.echo(finished.results["outcome"])


def _echo(sentence: str) -> None:
    from tqdm.auto import tqdm

    tqdm.write(printable(sentence))


def _aside(sentence: str) -> None:
    """Prints to stderr, so that stdout holds only lines for programs to read."""
    from tqdm.auto import tqdm

    tqdm.write(printable(sentence), file=sys.stderr)


def _need(packages: tuple[str, ...]) -> None:
    from importlib.util import find_spec

    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        fail(f"training needs {', '.join(missing)}: pip install 'hypersphere-lab[text]' or 'hypersphere-lab[image]'.")


def _calm() -> None:
    """Silences warnings and progress bars of libraries that mean nothing to a user."""
    warnings.filterwarnings("ignore", module="torch|transformers|accelerate|kornia")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    from transformers.utils import logging as library

    library.disable_progress_bar()  # type: ignore[no-untyped-call]


def _ended(error: BaseException) -> str:
    words = reason(error)
    return words if words.endswith((".", ")", "?")) else f"{words}."
