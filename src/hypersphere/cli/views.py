"""Two views to look at: a user's own, from a file, or synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.cli.answers import refuse

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
    arrays = _read(path)
    z1, z2 = (_checked(arrays[name], name, path) for name in ("z1", "z2"))
    if z1.shape != z2.shape or len(z1) < 2:
        refuse(
            f"z1 and z2 in {path} need one shape and at least two rows, not {tuple(z1.shape)} and {tuple(z2.shape)}."
        )
    labels = _labels(arrays["labels"], len(z1), path) if "labels" in arrays else None
    about = f"{path.name}: {len(z1)} pairs in {z1.shape[1]} dimensions"
    if len(z1) > MOST_ROWS:
        chosen = torch.randperm(len(z1), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
        z1, z2, about = z1[chosen], z2[chosen], f"{about}, of which {MOST_ROWS} drawn at random"
        labels = None if labels is None else labels[chosen]
    return Views(z1, z2, labels, about)


def _checked(array: Any, name: str, path: Path) -> Tensor:
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
    if array.shape != (size,) or not np.equal(np.mod(array, 1), 0).all():
        refuse(f"labels in {path} must be {size} whole numbers, one for each row, not {array.dtype} of {array.shape}.")
    return torch.from_numpy(array.astype(np.int64))


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
