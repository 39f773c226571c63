"""Two views to look at: a user's own, from a file, or synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.cli.answers import refuse
from hypersphere.diagnostics.files import VIEW_NAMES, Loaded, load_embeddings

MOST_ROWS = 1024
SIZE, DIM, NOISE, CLASSES = 128, 16, 0.8, 4


@dataclass(frozen=True)
class Views:
    """z1, z2 (N, D), labels (N,) or None, and what they are, in words."""

    z1: Tensor
    z2: Tensor
    labels: Tensor | None
    about: str


def synthetic_views(seed: int) -> Views:
    """Gaussian rows and the same with noise; labels at random."""
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(SIZE, DIM, generator=generator, dtype=torch.float64)
    z2 = z1 + NOISE * torch.randn(SIZE, DIM, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (SIZE,), generator=generator)
    about = (
        f"a synthetic batch: {SIZE} Gaussian rows in {DIM} dimensions and the same with noise of {NOISE:g} standard "
        f"deviations (seed {seed})"
    )
    return Views(z1, z2, labels, about)


def load_views(path: Path) -> Views:
    """Two views from a file, checked, with labels if there are any; never unpickles anything."""
    found = _read(path)
    z1, z2 = (_checked(values, name, path) for name, values in (("z1", found.z1), ("z2", found.z2)))
    if z1.shape != z2.shape or len(z1) < 2:
        refuse(
            f"z1 and z2 in {path} need one shape and at least two rows, not {tuple(z1.shape)} and {tuple(z2.shape)}."
        )
    labels = None if found.labels is None else _labels(_array(found.labels), len(z1), path)
    about = f"{path.name}: {len(z1)} pairs in {z1.shape[1]} dimensions"
    if len(z1) > MOST_ROWS:
        chosen = torch.randperm(len(z1), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
        z1, z2, about = z1[chosen], z2[chosen], f"{about}, of which {MOST_ROWS} drawn at random"
        labels = None if labels is None else labels[chosen]
    return Views(z1, z2, labels, about)


def _array(values: Any) -> Any:
    """As numpy has it, also floats of a kind that it does not know."""
    return values.double().numpy() if isinstance(values, Tensor) and values.is_floating_point() else np.asarray(values)


def _checked(values: Any, name: str, path: Path) -> Tensor:
    array = _array(values)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        refuse(f"{name} in {path} must be numbers of shape (N, D), not {array.dtype} of shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array.astype(np.float64)).all(axis=1))
    if len(bad):
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        refuse(f"{name} in {path} has NaN or Inf in row {', '.join(map(str, bad[:5]))}{more}.")
    zero = np.flatnonzero(~array.any(axis=1))
    if len(zero):
        refuse(f"{name} in {path} has rows of zeros, which have no direction (the first is row {zero[0]}).")
    return torch.from_numpy(array.astype(np.float64))


def _labels(array: Any, size: int, path: Path) -> Tensor:
    """Numbers of classes: whole numbers as they are, words in the order of the alphabet."""
    words = array.dtype.kind in "US"
    whole = array.dtype.kind in "biu" or (array.dtype.kind == "f" and np.array_equal(array, np.round(array)))
    if array.shape != (size,) or not (words or whole):
        refuse(
            f"labels in {path} must be {size} whole numbers or words, one for each row, not {array.dtype} of "
            f"{array.shape}."
        )
    return torch.from_numpy((np.unique(array, return_inverse=True)[1] if words else array).astype(np.int64))


def _read(path: Path) -> Loaded:
    if not path.is_file():
        refuse(f"there is no file {path} with embeddings.")
    if path.suffix not in (".npz", ".npy", ".safetensors"):
        refuse(f"embeddings come as .npz, .npy or .safetensors, not as {path}.")
    try:
        found = load_embeddings(path, arrays=() if path.suffix == ".npy" else VIEW_NAMES)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        refuse(f"{str(error).rstrip('.')}.")
    if found.z2 is None:
        refuse(f"{path} must hold an array of shape (2, N, D), not {found.z1.shape}.")
    return found
