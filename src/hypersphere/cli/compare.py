"""``hypersphere compare``: objectives tuned alike, repeated over seeds, tested once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hypersphere.cli.answers import console, fail, print_table
from hypersphere.cli.own import Imports, import_files
from hypersphere.cli.signals import terminable
from hypersphere.cli.starting import nothing_begun

if TYPE_CHECKING:
    from hypersphere.studies.compare.cells import Plan
    from hypersphere.studies.compare.worker import Progress


def compare(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe (a name or a YAML file), or the YAML file of a study.")
    ],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides the recipe, the same for all.")
    ] = None,
    objectives: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    trials: Annotated[int | None, typer.Option(help="Settings tried for each objective (8).")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each objective's best setting (5).")] = None,
    reference: Annotated[str | None, typer.Option(help="The others are compared with it; default: the first.")] = None,
    metric: Annotated[str | None, typer.Option(help="The score that decides; default: the task's own.")] = None,
    output: Annotated[str | None, typer.Option(help="The study's folder; default: studies/ and its name.")] = None,
    storage: Annotated[
        str | None, typer.Option(help="postgresql://…: workers on any number of machines share the study.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; default: one for each core.")] = None,
    imports: Imports = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what failed.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Print the plan and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Results for machines.")] = False,
) -> None:
    """Compare objectives fairly, each tuned alike.

    Each objective is tuned with the same number of trials on validation data. Its best setting runs with fresh seeds,
    and each of these runs looks at the test set once.
    """
    from hypersphere.cli.train import _calm, _ended, _need

    _need(("transformers", "pydantic", "yaml", "accelerate", "optuna"))
    with nothing_begun():
        from hypersphere.studies.compare.cells import Plan
        from hypersphere.studies.compare.queue import StorageError
        from hypersphere.studies.compare.run import compare as run
        from hypersphere.studies.compare.study import read_study

        import_files(imports)
        try:
            study = read_study(
                recipe, changes or [], objectives=objectives, trials=trials, seeds=seeds, reference=reference,
                metric=metric, output=output,
            )  # fmt: skip
            plan = Plan(study)
            plan.count()  # creates and so checks the recipe of every cell
        except (ValueError, TypeError, OSError) as error:
            fail(_ended(error))
        if check:
            _print_plan(plan, as_json)
            return
        _calm()
    try:
        with terminable(), _showing(plan, quiet=as_json) as (echo, show):
            comparison = run(study, storage=storage, jobs=jobs, retry=retry, echo=echo, show=show)
    except KeyboardInterrupt as stopped:
        typer.echo(f"Interrupted; the same command continues the study in {study.output}.", err=True)
        raise typer.Exit(143 if stopped.args else 130) from None
    except StorageError as error:
        fail(_ended(error))
    except (ValueError, OSError) as error:
        fail(_ended(error))
    from hypersphere.documents import json_safe
    from hypersphere.studies.compare.files import HEADER, as_tree, table_rows
    from hypersphere.studies.compare.words import verdict

    if as_json:
        typer.echo(json.dumps(json_safe(as_tree(comparison))))
        return
    print_table(console(), _table(HEADER, table_rows(comparison)))
    for sentence in verdict(comparison):
        typer.echo(sentence)
    typer.echo(f"Report: {study.output}/report.html")


def _print_plan(plan: Plan, as_json: bool) -> None:
    """Prints the plan of a study: ranges, cells, time."""
    seconds = plan.seconds()
    if as_json:
        cells = [{"id": cell.id, "stage": cell.stage, "objective": cell.objective, "trial": cell.trial,
                  "seed": cell.seed, "settings": cell.settings} for cell in plan.begin]  # fmt: skip
        typer.echo(json.dumps({"cells": cells, "runs": plan.count(), "seconds": seconds}))
        return
    study, fixed = plan.study, plan.untrained[0].recipe
    typer.echo(f"Fixed: {fixed.task}, {fixed.encoder.name} on {fixed.data.source}, batch {fixed.batch.size}.")
    rows = [
        [label, "; ".join(f"{key.removeprefix('objective.')} {span}" for key, span in space.items()) or "nothing"]
        for label, space in plan.spaces.items()
    ]
    print_table(console(), _table(["objective", "tuned"], rows))
    for key, values in study.grid.items():
        typer.echo(f"Grid: {key} {', '.join(map(str, values))}")
    for number, stage in enumerate(study.stages, start=1):
        words = "; ".join(f"{key} {', '.join(f'{value:g}' for value in values)}" for key, values in stage.items())
        typer.echo(f"Stage {number}: {words}")
    tests = 0 if study.grid else len(study.objectives) * study.seeds
    tuning = sum(plan.trials(each) for each in study.objectives)
    typer.echo(
        f"Runs: {plan.count()}: untrained {len(plan.untrained)}, tuning {tuning}, grid {len(plan.grid)}, "
        f"test {tests}; {plan.metric} decides, compared with {study.first}."
    )
    said = "known once the first run is over" if seconds is None else f"about {timedelta(seconds=round(seconds))}"
    typer.echo(f"Time: {said}.")


def _table(header: list[str], rows: list[list[str]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place and len(header) > 2 else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


@contextmanager
def _showing(plan: Plan, quiet: bool) -> Iterator[tuple[Any, Any]]:
    """Shows a running study: a live table in a terminal, a line for each run elsewhere."""
    screen = console(stderr=quiet)
    if not screen.is_terminal:
        yield (lambda words: typer.echo(words, err=quiet)), (lambda progress: None)
        return
    from rich.live import Live

    with Live(console=screen, refresh_per_second=2, transient=True) as live:
        yield (lambda words: screen.print(words)), (lambda progress: live.update(_progress(plan, progress)))


def _progress(plan: Plan, progress: Progress) -> Any:
    from rich.console import Group

    from hypersphere.studies.compare.results import collect

    rows = []
    for row in collect(plan, progress.attempts).ranking:
        tuned = [run for run in row.tuning if run.state in ("done", "failed")]
        tested = [run for run in row.runs if run.state in ("done", "failed")]
        best = "" if row.tuned is None else f"{row.tuned:.2f}"
        mean = "" if row.summary is None else f"{row.summary.mean:.2f}"
        running = sum(progress.cells[cell].objective == row.objective for cell in progress.running)
        rows.append([row.name, f"{len(tuned)}/{len(row.tuning)}", best, f"{len(tested)}/{plan.study.seeds}", mean,
                     "·" * running])  # fmt: skip
    left = progress.seconds_left
    words = f"{progress.ended} of {progress.total} runs"
    words += "" if left is None else f", about {timedelta(seconds=round(left))} left"
    return Group(_table(["objective", "trials", "best validation", "tests", "test", ""], rows), words)
