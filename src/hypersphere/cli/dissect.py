"""``hypersphere dissect``: what objectives do to the anchors of a batch, in a table, in words and in a figure."""

from __future__ import annotations

import ast
import difflib
import io
import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.table import Table
from torch import Tensor

from hypersphere.anatomy import Anatomy, AngleGrid, Components, list_closed_forms, simulate
from hypersphere.anatomy import dissect as take_apart
from hypersphere.cli.answers import console, put, refuse
from hypersphere.objectives import Objective, create_objective, list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.report import write_whole

MOST_ROWS = 1024
SIZE, DIM, NOISE = 128, 64, 0.8
Views = tuple[Tensor, Tensor, str]


def dissect(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME… [KEY=VALUE…]", help="Objectives by name, and settings for them.")
    ],
    embeddings: Annotated[
        Path | None,
        typer.Option("--embeddings", metavar="FILE", help="Your z1 and z2: .npz, .safetensors, or .npy of (2, N, D)."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the figures.")] = Path("dissected"),
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the synthetic batch.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """What objectives do to the anchors of a batch: dissipation, weight, ratio.

    On your own pair of views, or on a synthetic one. A setting goes to every named objective that has it. Two figures
    are written: the anchors of this batch, and maps over the angles for objectives with a closed form.
    """
    names = [word for word in words if "=" not in word]
    objectives = _objectives(names, _settings([word for word in words if "=" in word]))
    z1, z2, about = _synthetic(seed) if embeddings is None else load_views(embeddings)
    screen = console(stderr=True)
    found: list[Anatomy] = []
    for objective in objectives:
        screen.print(f"dissecting {objective}", style="dim", soft_wrap=True)
        try:
            found.append(take_apart(objective, z1, z2, _labels(objective, len(z1))))
        except (ValueError, RuntimeError) as error:
            refuse(f"{objective} cannot be taken apart on this batch: {str(error).splitlines()[0]}.")
    files = _draw(names, objectives, found, about, out)
    if as_json:
        typer.echo(json.dumps(_as_json(names, found, about, files), indent=1))
        return
    _print(found, about)
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


def _objectives(names: list[str], settings: dict[str, Any]) -> list[Objective]:
    if not names:
        refuse("name at least one objective; 'hypersphere objectives' lists them.")
    known = {}
    for name in names:
        if name not in list_objectives():
            near = difflib.get_close_matches(name.lower(), list_objectives(), n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else "'hypersphere objectives' lists those there are."
            refuse(f"there is no objective {name!r}; {hint}")
        known[name] = set(objective_class(name).settings())
    for key in settings:
        if not any(key in each for each in known.values()):
            every = sorted(set().union(*known.values()))
            near = difflib.get_close_matches(key, every, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(every)}."
            refuse(f"no setting {key!r} in {', '.join(names)}; {hint}")
    made = []
    for name in names:
        own = {key: value for key, value in settings.items() if key in known[name]}
        try:
            made.append(create_objective(name, **own))
        except (TypeError, ValueError) as error:
            refuse(f"{str(error).splitlines()[0].rstrip('.')}.")
    return made


def _labels(objective: Objective, size: int) -> Tensor | None:
    """Every instance a class of its own, for objectives that want labels."""
    return torch.arange(size) if getattr(objective, "labelled", False) else None


def _synthetic(seed: int) -> Views:
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(SIZE, DIM, generator=generator, dtype=torch.float64)
    z2 = z1 + NOISE * torch.randn(SIZE, DIM, generator=generator, dtype=torch.float64)
    about = (
        f"synthetic batch: {SIZE} Gaussian rows in {DIM} dimensions and the same with noise of {NOISE:g} standard "
        f"deviations (seed {seed})"
    )
    return z1, z2, about


def load_views(path: Path) -> Views:
    """Two views from a file, checked; never unpickles anything."""
    arrays = _read(path)
    views = []
    for name in ("z1", "z2"):
        array = arrays[name]
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            refuse(f"{name} in {path} must be numbers of shape (N, D), not {array.dtype} of shape {array.shape}.")
        bad = np.flatnonzero(~np.isfinite(array.astype(np.float64)).all(axis=1))
        if len(bad):
            more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
            refuse(f"{name} in {path} has NaN or Inf in row {', '.join(map(str, bad[:5]))}{more}.")
        zero = np.flatnonzero(~array.any(axis=1))
        if len(zero):
            refuse(f"{name} in {path} has rows of zeros, which have no direction (the first is row {zero[0]}).")
        views.append(torch.from_numpy(array.astype(np.float64)))
    z1, z2 = views
    if z1.shape != z2.shape or len(z1) < 2:
        refuse(
            f"z1 and z2 in {path} need one shape and at least two rows, not {tuple(z1.shape)} and {tuple(z2.shape)}."
        )
    about = f"{path.name}: {len(z1)} pairs in {z1.shape[1]} dimensions"
    if len(z1) > MOST_ROWS:
        chosen = torch.randperm(len(z1), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
        z1, z2, about = z1[chosen], z2[chosen], f"{about}, of which {MOST_ROWS} drawn at random"
    return z1, z2, about


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        refuse(f"there is no file {path} with embeddings.")
    try:
        if path.suffix == ".safetensors":
            found = _read_safetensors(path)
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
        elif path.suffix == ".npy":
            both = np.load(path, allow_pickle=False)
            if both.ndim != 3 or len(both) != 2:
                refuse(f"{path} must hold an array of shape (2, N, D), not {both.shape}.")
            found = {"z1": both[0], "z2": both[1]}
        else:
            refuse(f"embeddings come as .npz, .npy or .safetensors, not as {path}.")
    except (OSError, ValueError, EOFError, KeyError) as error:
        refuse(f"{path} cannot be read as {path.suffix[1:]} ({str(error).splitlines()[0].rstrip('.')}).")
    missing = [name for name in ("z1", "z2") if name not in found]
    if missing:
        refuse(f"{path} has no array {' and '.join(missing)} (it has {', '.join(sorted(found)) or 'none'}).")
    return found


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        refuse("reading .safetensors needs that package: pip install safetensors.")
    try:
        with safe_open(path, framework="pt") as archive:
            return {name: archive.get_tensor(name).to(torch.float64).numpy() for name in archive.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _draw(names: list[str], objectives: list[Objective], found: list[Anatomy], about: str, out: Path) -> list[Path]:
    try:
        import matplotlib  # noqa: F401

        from hypersphere.figures.anatomy import plot
    except ImportError:
        typer.echo("There are no figures without matplotlib: pip install 'hypersphere[figures]'.", err=True)
        return []
    figures = {"anatomy": plot(found)}
    maps = _maps(names, objectives)
    if maps is not None:
        figures["maps"] = maps
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


def _maps(names: list[str], objectives: list[Objective]) -> Any:
    """Mean dissipation, share of the hardest and mean ratio over Li's grid of angles, coarser."""
    from hypersphere.figures.anatomy import HeatMap, heat_maps

    grid = AngleGrid(points=40, batches=40)
    positive, negative = (means.numpy() for means in grid.means())
    shown = []
    for name, objective in zip(names, objectives, strict=True):
        own = _numbers(name, objective)
        if own is None:
            continue
        gate = simulate(name, grid, **own).numpy()
        shown.append(HeatMap(f"{name}: mean GD", gate, gate - 0.5 if gate.min() < 0.5 < gate.max() else None))
        shown.append(HeatMap(f"{name}: share of the hardest", simulate(name, grid, _share, **own).numpy()))
    if not shown:
        return None
    note = f"Angles drawn around μ (spread 0.05 and 0.10), {grid.negatives} negatives; line: GD = 1/2."
    return heat_maps(
        "Over the angles", shown, positive, negative, "GD, or share of the weight", ("μ", "μ"), columns=2, note=note
    )


def _share(components: Components) -> Tensor:
    """Share of the largest weight; an angle drawn below zero may turn a weight's sign."""
    sizes = components.weight.abs()
    return sizes.amax(dim=-1) / sizes.sum(dim=-1)


def _numbers(name: str, objective: Objective) -> dict[str, Any] | None:
    """The closed form's parameters; None if there is no closed form for what this objective is set to."""
    if name not in list_closed_forms() or name == "paradigm":  # a paradigm is what its components are
        return None
    kept = [key for key in ("temperature", "margin", "angle") if key in objective.settings()]
    found: dict[str, Any] = {key: getattr(objective, key) for key in kept}
    return found if all(isinstance(value, (int, float)) for value in found.values()) else None


def _as_json(names: list[str], found: list[Anatomy], about: str, files: list[Path]) -> dict[str, Any]:
    def clean(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "batch": about,
        "objectives": [
            {
                "objective": name,
                "as": each.name,
                "scope": each.scope,
                "numbers": {key: clean(value) for key, value in each.numbers().items()},
                "verdict": each.verdict(),
                "conventions": each.method,
            }
            for name, each in zip(names, found, strict=True)
        ],
        "figures": [str(path) for path in files],
    }


def _print(found: list[Anatomy], about: str) -> None:
    screen = console()
    screen.print(f"On a {about}." if about.startswith("synthetic") else f"On {about}.", soft_wrap=True)
    screen.print()
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="cyan", no_wrap=True)
    for each in found:
        table.add_column(each.name.partition("(")[0], justify="right")
    for row in found[0].numbers():
        table.add_row(row, *(_cell(each.numbers()[row]) for each in found))
    put(screen, table)
    screen.print()
    for each in found:
        screen.print(f"{each.name}: {each.verdict()}", soft_wrap=not screen.is_terminal)
    screen.print()
    for method in dict.fromkeys(each.method for each in found):
        screen.print(f"Conventions: {method}.", style="dim", soft_wrap=not screen.is_terminal)


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
