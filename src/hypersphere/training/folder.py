"""The folder of a run: which run may write into it, and the records it holds of that run."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere import __version__
from hypersphere.documents import read_json, read_yaml
from hypersphere.objectives.files import fingerprint, fingerprints, map_names, names_in, split
from hypersphere.report import atomic_write
from hypersphere.report.files import remove_unfinished, unfinished
from hypersphere.training import checkpoints
from hypersphere.training.load import parse_recipe, write_recipe
from hypersphere.training.objective import fill_sizes, sized
from hypersphere.training.recipe import Recipe
from hypersphere.training.seeding import processes

# The names in a run's folder.
RECIPE, ENVIRONMENT, RESULTS, METRICS = "recipe.yaml", "environment.json", "results.json", "metrics.jsonl"
MODEL, OBJECTIVE, EMBEDDINGS = "model", "objective.safetensors", "embeddings.safetensors"
CHECKPOINTS, BEST, TENSORBOARD, LOCK = "checkpoints", "best", "tensorboard", ".lock"
TEXTS_AT_A_TIME = 10_000  # texts hashed in one batch
PACKAGES = ("torch", "numpy", "transformers", "sentence-transformers", "accelerate", "datasets", "kornia", "tokenizers")


@contextmanager
def claimed(folder: Path, recipe: Recipe, resume: bool, leader: bool) -> Iterator[bool]:
    """Reserves the folder for this run while the context lasts; yields whether a run in it is continued.

    Refuses a folder that holds another run, a finished run, a run in training, or unrelated files. If the context
    created the folder and no run began, the folder is removed again.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]  # innermost first
    continued = _check(folder, recipe, resume)
    if not leader:
        yield continued
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        remove_unfinished(folder)
        try:
            yield continued
        finally:
            if made and not (folder / RECIPE).exists():
                shutil.rmtree(folder, ignore_errors=True)
                for above in made[1:]:
                    with suppress(OSError):  # another process has put a file there
                        above.rmdir()


def describe(folder: Path, recipe: Recipe, data: DataFingerprint | None = None) -> None:
    """Writes the resolved recipe, the versions of all relevant packages, the seed, and the fingerprint of the data."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    environment = {
        "hypersphere": __version__,
        "python": platform.python_version(),
        "packages": versions,
        "seed": recipe.seed,
        "threads": torch.get_num_threads(),
        "processes": processes(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "data": None if data is None else asdict(data),
        "objective_files": fingerprints(recipe.objective),
        "reads_labels": recipe.reads_labels,
    }
    atomic_write(folder / ENVIRONMENT, json.dumps(environment, indent=1))
    atomic_write(folder / RECIPE, write_recipe(recipe))


def prospect(folder: Path) -> str:
    """The state of a run that stopped, in words: which step is saved, and where a resumed run continues."""
    if not (folder / RECIPE).is_file():
        return "nothing was begun"
    step = checkpoints.last_sealed(folder / CHECKPOINTS)
    if step is None:
        return "nothing is saved, so the same command with --resume begins it again"
    return f"step {step} is saved, and the same command with --resume continues it"


def check_data(folder: Path, data: DataFingerprint | None) -> None:
    """Refuses to continue with data other than the run was started with, if the folder has a record of the data."""
    before = read_json(folder / ENVIRONMENT, dict).get("data")
    if before is None or data is None or before == asdict(data):
        return
    if not isinstance(before, dict) or "rows" not in before:
        raise ValueError(f"{folder / ENVIRONMENT} is damaged: it does not name the data of the run")
    if before["rows"] != data.rows:
        change = f"had {before['rows']} rows when the run was started, now it has {data.rows}"
    else:
        change = f"has other rows than when the run was started, {data.rows} as then"
    raise ValueError(f"the data {change}; a resumed run keeps its data")


def check_recipe(folder: Path, recipe: Recipe) -> None:
    """Refuses to continue with a recipe other than the run was started with. Sizes that the recipe leaves open are
    taken from the run; once the data is loaded, they are compared too."""
    before, _ = _started(folder, recipe)
    sizes = next(sized(before.objective), {})
    filled = fill_sizes(recipe.objective, sizes.get("num_classes"), sizes.get("dim"))
    _same(before.resolved(), recipe.model_copy(update={"objective": filled}).resolved())


def _started(folder: Path, recipe: Recipe) -> tuple[Recipe, int]:
    """The recipe of the run that ``recipe`` continues, and the number of processes the run was started on."""
    try:
        tree = read_yaml(folder / RECIPE, dict)
        environment = read_json(folder / ENVIRONMENT, dict)
        if type(environment["processes"]) is not int:
            raise ValueError(f"{folder / ENVIRONMENT} gives no number of processes")
        if own := names_in(tree.get("objective")):
            named = _same_files(own, names_in(recipe.objective), environment.get("objective_files") or {})
            tree["objective"] = map_names(tree["objective"], lambda name: named.get(name, name))
        return parse_recipe(tree, spared=lambda key: True), environment["processes"]
    except ChangedFileError:
        raise
    except (ValueError, TypeError, KeyError, OSError, AttributeError) as error:
        raise ValueError(f"{folder} does not hold how its run was started: {error}") from None


def _check(folder: Path, recipe: Recipe, resume: bool) -> bool:
    """Whether a run is continued. A run killed before its description was written starts over, even with --resume."""
    if (folder / RESULTS).is_file():
        raise FileExistsError(f"{folder} holds a finished run; it is not overwritten (output=… names another folder)")
    begun = (folder / RECIPE).is_file()
    if begun and not resume:
        raise FileExistsError(f"{folder} holds an unfinished run: --resume continues it, output=… starts another")
    if not begun:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if resume and not names:
            raise FileNotFoundError(f"{folder} holds no run to resume; the same command without --resume begins it")
        if names and not _only_leftovers(folder, names):
            raise FileExistsError(f"{folder} is not empty and holds no run; output=… names another folder")
        return False
    check_recipe(folder, recipe)
    before = _started(folder, recipe)[1]
    if before != processes():
        raise ValueError(f"the run was started on {before} processes and now has {processes()}; it keeps their number")
    return True


class ChangedFileError(ValueError):
    """An objective's file that is not the one the run was started with."""


def _same_files(before: list[str], now: list[str], kept: dict[str, str]) -> dict[str, str]:
    """Maps each name with a file in the recipe of a run's folder to the file the user gives now; their contents must be
    equal. So no file is executed because a folder names it, and a file may have moved."""
    for place, was in enumerate(before):
        (path, inner), given = split(was) or (Path(), ""), split(now[place]) if place < len(now) else None
        if given is None or given[1] != inner:
            raise ChangedFileError(f"the run was started with the objective {was}; a resumed run keeps its objective")
        if fingerprint(given[0]) != kept.get(str(path)):
            raise ChangedFileError(
                f"{given[0]} has changed since the run was started, and a resumed run keeps its objective: "
                "put the file back as it was, or start another run with output=…"
            )
    return dict(zip(before, now, strict=False))


def _only_leftovers(folder: Path, names: set[str]) -> bool:
    """Whether all files may come from a run that failed or was killed before its first step. A run writes its lock
    first."""
    known = {TENSORBOARD, CHECKPOINTS, LOCK}
    if LOCK in names:
        known |= {ENVIRONMENT, *(path.name for path in unfinished(folder))}
    return names <= known and not any(folder.glob(f"{CHECKPOINTS}/*"))


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
    """The system releases the lock when the process ends, however it ends. The file stays empty; links are not
    followed."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise ValueError(f"{folder / LOCK} cannot be the lock of a run: {why}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise FileExistsError(f"{folder} is being trained by another process") from None
    try:
        yield
    finally:
        os.close(handle)


# --- fingerprints of a run's data


@dataclass(frozen=True)
class DataFingerprint:
    """The number of rows, and a hash of all rows in their order."""

    rows: int
    hash: str


def fingerprint_texts(columns: Sequence[Sequence[str]]) -> DataFingerprint:
    """The fingerprint of the texts of a corpus, column by column.

    >>> fingerprint_texts([["ab", "c"]]) == fingerprint_texts([["a", "bc"]])
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for column in columns:
        for start in range(0, len(column), TEXTS_AT_A_TIME):
            digest.update("\0".join([*column[start : start + TEXTS_AT_A_TIME], ""]).encode(errors="surrogatepass"))
        digest.update(b"\0\0")
    return DataFingerprint(len(columns[0]), digest.hexdigest())


def fingerprint_images(images: Tensor, labels: Tensor) -> DataFingerprint:
    """The fingerprint of images (N, C, H, W) and their labels (N,)."""
    digest = hashlib.blake2b(str(tuple(images.shape)).encode(), digest_size=16)
    for part in (images, labels):
        digest.update(part.contiguous().numpy().data)
    return DataFingerprint(len(images), digest.hexdigest())
