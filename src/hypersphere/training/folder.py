"""The folder of a run: who may write into it, and what it says of the run."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml

from hypersphere.objectives.base import Objective
from hypersphere.report import write_whole
from hypersphere.training.content import Content
from hypersphere.training.reading import parse_recipe, write_recipe
from hypersphere.training.recipe import Recipe

LOCK = ".lock"
PACKAGES = ("torch", "numpy", "transformers", "sentence-transformers", "accelerate", "datasets", "kornia", "tokenizers")


@contextmanager
def claimed(folder: Path, recipe: Recipe, resume: bool, leader: bool) -> Iterator[None]:
    """The folder is this run's as long as the context lasts. Refuses one that holds another run, a finished one, one
    that is being trained, or files of somebody else's; a folder that this made is gone again if nothing was begun."""
    fresh = not folder.exists()
    _check(folder, recipe, resume)
    if not leader:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        try:
            yield
        finally:
            if fresh and not (folder / "recipe.yaml").exists():
                shutil.rmtree(folder, ignore_errors=True)


def describe(folder: Path, recipe: Recipe, content: Content | None = None) -> None:
    """Writes the resolved recipe, the versions of everything that matters, the seed, and what the data was."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    environment = {
        "hypersphere": importlib.metadata.version("hypersphere"),
        "python": platform.python_version(),
        "packages": versions,
        "seed": recipe.seed,
        "threads": torch.get_num_threads(),
        "processes": _processes(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "data": None if content is None else asdict(content),
    }
    write_whole(folder / "environment.json", json.dumps(environment, indent=1))
    write_whole(folder / "recipe.yaml", write_recipe(recipe))


def check_content(folder: Path, content: Content | None) -> None:
    """Refuses to go on with other data than the run was started with, as far as the folder says what it was."""
    before = json.loads((folder / "environment.json").read_text()).get("data")
    if before is None or content is None or before == asdict(content):
        return
    if not isinstance(before, dict) or "rows" not in before:
        raise ValueError(f"{folder / 'environment.json'} is damaged: it does not say which data the run had")
    if before["rows"] != content.rows:
        change = f"had {before['rows']} rows when the run was started, now it has {content.rows}"
    else:
        change = f"has other rows than when the run was started, {content.rows} as then"
    raise ValueError(f"the data {change}; a resumed run keeps its data")


def _check(folder: Path, recipe: Recipe, resume: bool) -> None:
    if (folder / "results.json").is_file():
        raise FileExistsError(f"{folder} holds a finished run; it is not overwritten (output=… names another folder)")
    begun = (folder / "recipe.yaml").is_file()
    if begun and not resume:
        raise FileExistsError(f"{folder} holds an unfinished run: --resume continues it, output=… starts another")
    if resume and not begun:
        raise FileNotFoundError(f"{folder} holds no run to resume")
    if resume:
        try:
            before = parse_recipe(yaml.safe_load((folder / "recipe.yaml").read_text()), spared=lambda key: True)
            processes = json.loads((folder / "environment.json").read_text())["processes"]
        except (yaml.YAMLError, ValueError, KeyError, OSError) as error:
            raise ValueError(f"{folder} does not say how its run was started: {error}") from None
        _same(_resolved(before), _resolved(recipe))
        if processes != _processes():
            raise ValueError(
                f"the run was started on {processes} processes and now has {_processes()}; it keeps their number"
            )
    elif folder.exists() and any(folder.iterdir()) and not _only_leftovers(folder):
        raise FileExistsError(f"{folder} is not empty and holds no run; output=… names another folder")


def _only_leftovers(folder: Path) -> bool:
    """What a run that failed before its first step may leave."""
    known = {path.name for path in folder.iterdir()} <= {"tensorboard", "checkpoints", LOCK}
    return known and not any(folder.glob("checkpoints/*"))


def _resolved(recipe: Recipe) -> dict[str, Any]:
    """The recipe with every setting of its objective, written or not."""
    return {**recipe.model_dump(), "objective": _settings(recipe.create_objective())}


def _settings(objective: Objective) -> dict[str, Any]:
    found: dict[str, Any] = {"name": objective.name}
    for name in objective.settings():
        value = getattr(objective, name)
        if isinstance(value, Objective):
            found[name] = _settings(value)
        else:
            learned = isinstance(value, torch.Tensor)  # in float32
            found[name] = float(f"{value.item():.6g}") if learned else value
    return found


def _same(before: dict[str, Any], now: dict[str, Any], place: str = "") -> None:
    for key in (*before, *(key for key in now if key not in before)):
        if place == "" and key in ("about", "output"):
            continue
        was, given = before.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(given, dict):
            _same(was, given, f"{place}{key}.")
        elif was != given:
            raise ValueError(
                f"the run was started with {place}{key}={was}, now it is {given}; a resumed run keeps its recipe"
            )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The system lets go of it when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileExistsError(f"{folder} is being trained by another process") from None
        yield


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))
