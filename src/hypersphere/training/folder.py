"""The folder of a run: who may write into it, and what it says of the run."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml

from hypersphere.report import write_whole
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


def describe(folder: Path, recipe: Recipe) -> None:
    """Writes the resolved recipe, the versions of everything that matters, and the seed."""
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
    }
    write_whole(folder / "environment.json", json.dumps(environment, indent=1))
    write_whole(folder / "recipe.yaml", write_recipe(recipe))


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
            before = parse_recipe(yaml.safe_load((folder / "recipe.yaml").read_text()))
            processes = json.loads((folder / "environment.json").read_text())["processes"]
        except (yaml.YAMLError, ValueError, KeyError, OSError) as error:
            raise ValueError(f"{folder} does not say how its run was started: {error}") from None
        _same(before.model_dump(), recipe.model_dump())
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


def _same(before: dict[str, Any], now: dict[str, Any], place: str = "") -> None:
    for key in before:
        if place == "" and key in ("about", "output"):
            continue
        if isinstance(before[key], dict) and isinstance(now.get(key), dict):
            _same(before[key], now[key], f"{place}{key}.")
        elif before[key] != now.get(key):
            raise ValueError(
                f"the run was started with {place}{key}={before[key]}, now it is {now.get(key)}; "
                "a resumed run keeps its recipe"
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
