"""``hypersphere dissect``: what objectives do to the anchors of a batch, in a table, in words and in a figure."""

from __future__ import annotations

import ast
import io
import json
import math
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.table import Table
from torch import Tensor

from hypersphere.anatomy import Anatomy, AngleGrid, form_settings
from hypersphere.anatomy import dissect as take_apart
from hypersphere.cli.answers import console, need_folder, put, refuse
from hypersphere.cli.views import Views, load_views, synthetic_views
from hypersphere.names import did_you_mean
from hypersphere.objectives import Objective, create_objective, list_objectives, within
from hypersphere.objectives.registry import objective_class
from hypersphere.report import write_whole


def dissect(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME… [KEY=VALUE…]", help="Objectives by name, and settings for them.")
    ],
    embeddings: Annotated[
        Path | None,
        typer.Option(
            "--embeddings",
            metavar="FILE",
            help="Your z1 and z2, and labels if you have any: .npz, .safetensors, or .npy of (2, N, D).",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the figures.")] = Path("dissected"),
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Of the synthetic batch.")] = 0,
    step: Annotated[float, typer.Option("--step", metavar="λ", help="Step of Lemma 1.")] = 0.1,
    negative: Annotated[
        str, typer.Option("--negative", metavar="WHICH", help="Lemma 1 against the hardest negative or their mean.")
    ] = "hardest",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """What objectives do to the anchors of a batch: dissipation, weight, ratio.

    On your own pair of views, or on a synthetic one. A setting goes to every named objective that has it. Two figures
    are written: the anchors of this batch, and maps over the angles for objectives with a closed form.
    """
    names = [word for word in words if "=" not in word]
    settings = _settings([word for word in words if "=" in word])
    _check(names, settings)
    if not 0 < step < math.inf or negative not in ("hardest", "mean"):
        refuse(f"Lemma 1 is for a finite step above 0 against 'hardest' or 'mean', not {step:g} and {negative!r}.")
    need_folder(out)
    views = synthetic_views(seed) if embeddings is None else load_views(embeddings)
    objectives = [_objective(name, settings, views) for name in names]
    screen = console(stderr=True)
    found: list[Anatomy] = []
    for objective in objectives:
        screen.print(f"dissecting {objective}", style="dim", soft_wrap=True)
        try:
            found.append(take_apart(objective, views.z1, views.z2, _labels(objective, views)))
        except (ValueError, RuntimeError) as error:
            refuse(f"{objective} cannot be taken apart on this batch: {str(error).splitlines()[0]}.")
    files = _draw(objectives, found, step, negative, out)
    if as_json:
        typer.echo(json.dumps(_as_json(names, found, step, negative, views.about, files), indent=1))
        return
    _print(names, found, step, negative, views.about)
    for path in files:
        typer.echo(f"figure: {path}")


def _settings(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if not key.isidentifier() or not value:
            refuse(f"a setting is written key=value, such as temperature=0.1, not {word!r}.")
        try:
            found[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[key] = {"true": True, "false": False}.get(value.lower(), value)
    return found


def _check(names: list[str], settings: dict[str, Any]) -> None:
    """One sentence for an unknown objective, or for a setting that none of them has."""
    if not names:
        refuse("name at least one objective; 'hypersphere objectives' lists them.")
    for name in names:
        if name not in list_objectives():
            hint = did_you_mean(name, list_objectives()) or "; 'hypersphere objectives' lists those there are."
            refuse(f"there is no objective {name!r}{hint}")
    every = sorted({key for name in names for key in objective_class(name).settings()})
    for key in settings:
        if key not in every:
            hint = did_you_mean(key, every) or f"; there are {', '.join(every)}."
            refuse(f"no setting {key!r} in {', '.join(names)}{hint}")


def _objective(name: str, settings: dict[str, Any], views: Views) -> Objective:
    own = {key: value for key, value in settings.items() if key in objective_class(name).settings()}
    if name == "cloa":
        classes = 1 if views.labels is None else max(1, int(views.labels.max()) + 1)
        own = {"num_classes": classes, "dim": views.z1.shape[1], **own}
    try:
        found = create_objective(name, **own)
    except (TypeError, ValueError) as error:
        refuse(f"{str(error).splitlines()[0].rstrip('.')}.")
    if views.labels is None and any(each.name == "cloa" for each in within(found)):
        refuse(
            "cloa pulls labelled rows to its anchors and is its base without them: put an array 'labels' beside z1 "
            "and z2 (whole numbers from 0, -1 where unknown), or dissect the base."
        )
    return found


def _labels(objective: Objective, views: Views) -> Tensor | None:
    """The batch's labels, for objectives that look at them; every instance a class of its own if there are none."""
    if any(getattr(each, "labelled", False) for each in within(objective)):
        return torch.arange(len(views.z1)) if views.labels is None else views.labels
    return views.labels if any(each.name == "cloa" for each in within(objective)) else None


def _draw(objectives: list[Objective], found: list[Anatomy], step: float, negative: str, out: Path) -> list[Path]:
    try:
        import matplotlib  # noqa: F401

        from hypersphere.figures.anatomy import plot
        from hypersphere.figures.maps import component_maps
    except ImportError:
        typer.echo("There are no figures without matplotlib: pip install 'hypersphere[figures]'.", err=True)
        return []
    figures = {"anatomy": plot(found, step, negative)}
    closed = [objective for objective in objectives if _has_form(objective)]
    if closed:
        figures["maps"] = component_maps(closed, AngleGrid(points=40, batches=100))
    written = []
    try:
        for name, figure in figures.items():
            for kind in ("png", "pdf"):
                page = io.BytesIO()
                figure.savefig(page, format=kind, dpi=150, bbox_inches="tight")
                written.append(write_whole(out / f"{name}.{kind}", page.getvalue()))
    except OSError as error:
        refuse(f"{error.filename or out} cannot be written ({error.strerror}).")
    return written


def _has_form(objective: Objective) -> bool:
    """Whether maps over the angles can be drawn; says why not."""
    try:
        form_settings(objective)
    except ValueError as error:
        typer.echo(f"No maps of {objective.name}: {str(error).partition(' (there are')[0]}.", err=True)
        return False
    return True


def _as_json(
    names: list[str], found: list[Anatomy], step: float, negative: str, about: str, files: list[Path]
) -> dict[str, Any]:
    def clean(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "batch": about,
        "objectives": [
            {
                "objective": name,
                "as": each.name,
                "scope": each.scope,
                "numbers": {key: clean(value) for key, value in each.numbers(step, negative).items()},
                "verdict": each.verdict(step, negative),
                "conventions": each.conventions,
            }
            for name, each in zip(names, found, strict=True)
        ],
        "figures": [str(path) for path in files],
    }


def _print(names: list[str], found: list[Anatomy], step: float, negative: str, about: str) -> None:
    screen = console()
    screen.print(f"On {about}.", soft_wrap=True)
    screen.print()
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="cyan", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    numbers = [each.numbers(step, negative) for each in found]
    for row in numbers[0]:
        table.add_row(row, *(_cell(each[row]) for each in numbers))
    put(screen, table)
    screen.print()
    for each in found:
        screen.print(f"{each.name}: {each.verdict(step, negative)}", soft_wrap=not screen.is_terminal)
    screen.print()
    for conventions in dict.fromkeys(each.conventions for each in found):
        screen.print(f"Conventions: {conventions}.", style="dim", soft_wrap=not screen.is_terminal)


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
