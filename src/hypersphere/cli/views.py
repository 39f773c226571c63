"""Two views to examine: the user's own, from a file, a run or a model, or synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.cli.answers import fail
from hypersphere.cli.sources import drawn_lines, embed_text, load_source, text_views
from hypersphere.diagnostics.files import SUFFIXES, VIEW_NAMES, Loaded
from hypersphere.messages import first_line

MOST_ROWS = 1024
SIZE, DIM, NOISE, CLASSES = 128, 16, 0.8, 4


@dataclass(frozen=True)
class Views:
    """z1, z2 (N, D), labels (N,) or None, and a description in words."""

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


def find_views(
    source: str | None, text: Path | None = None, seed: int = 0, kind: str = "", samples: int | None = None
) -> Views:
    """Two views from a file or a run, or from a model on a text: pairs, or each line twice with dropout. Without a
    source, the views are synthetic."""
    if source is None:
        if text is not None:
            fail("--text is for a model: name it.")
        return synthetic_views(seed)
    path = Path(source)
    model = text is not None and path.suffix not in SUFFIXES
    if text is not None and not model:
        fail(f"--text is for a model; {source} holds embeddings by itself.")
    try:
        if model and text is not None:
            kind = text_views(text, kind, "dropout")
            loaded = embed_text(source, text, kind, seed, samples, need_dropout=True)
        else:
            loaded = _read(path)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        fail(f"{first_line(error).rstrip('.')}.")
    name = path.resolve().name
    name = f"{path.resolve().parent.name}/{name}" if name == "model" else name
    about = name
    if model and text is not None:
        how = "each twice with dropout" if kind == "dropout" else "two texts each"
        about = f"{name} on {text.name}, {drawn_lines(loaded, seed)}, {how}"
    return _checked_views(loaded, path, about)


def _checked_views(loaded: Loaded, path: Path, about: str) -> Views:
    """Checks that the views are finite and of one shape; draws a sample if there are too many rows."""
    z1, z2 = (_checked(values, name, path) for name, values in (("z1", loaded.z1), ("z2", loaded.z2)))
    if z1.shape != z2.shape or len(z1) < 2:
        fail(f"z1 and z2 in {path} need one shape and at least two rows, not {tuple(z1.shape)} and {tuple(z2.shape)}.")
    labels = None if loaded.labels is None else _labels(_array(loaded.labels), len(z1), path)
    about = f"{about}: {len(z1)} pairs in {z1.shape[1]} dimensions"
    if torch.equal(z1, z2):
        about = f"{about}, both views the same"
    if len(z1) > MOST_ROWS:
        chosen = torch.randperm(len(z1), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
        z1, z2, about = z1[chosen], z2[chosen], f"{about}, of which {MOST_ROWS} drawn at random"
        labels = None if labels is None else labels[chosen]
    return Views(z1, z2, labels, about)


def _array(values: Any) -> Any:
    """Converts values to a numpy array, including float types that numpy lacks."""
    return values.double().numpy() if isinstance(values, Tensor) and values.is_floating_point() else np.asarray(values)


def _checked(values: Any, name: str, path: Path) -> Tensor:
    array = _array(values)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        fail(f"{name} in {path} must be numbers of shape (N, D), not {array.dtype} of shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array.astype(np.float64)).all(axis=1))
    if len(bad):
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        fail(f"{name} in {path} has NaN or Inf in row {', '.join(map(str, bad[:5]))}{more}.")
    zero = np.flatnonzero(~array.any(axis=1))
    if len(zero):
        fail(f"{name} in {path} has rows of zeros, which have no direction (the first is row {zero[0]}).")
    return torch.from_numpy(array.astype(np.float64))


def _labels(array: Any, size: int, path: Path) -> Tensor:
    """Class numbers: whole numbers stay as they are, words are numbered in alphabetical order."""
    words = array.dtype.kind in "US"
    whole = array.dtype.kind in "biu" or (array.dtype.kind == "f" and np.array_equal(array, np.round(array)))
    if array.shape != (size,) or not (words or whole):
        fail(
            f"labels in {path} must be {size} whole numbers or words, one for each row, not {array.dtype} of "
            f"{array.shape}."
        )
    return torch.from_numpy((np.unique(array, return_inverse=True)[1] if words else array).astype(np.int64))


def _read(path: Path) -> Loaded:
    """Loads the embeddings of a file or a run; never unpickles anything."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path} with embeddings")
    named = path.is_file() and path.suffix in (".npz", ".safetensors")
    loaded = load_source(path, arrays=VIEW_NAMES if named else ())
    if loaded.z2 is None:
        raise ValueError(
            f"{path} has one view of shape {tuple(loaded.z1.shape)}, and positives need two: arrays z1 and z2, an .npy "
            "of shape (2, N, D), or a model with --text, which dropout makes two views of"
        )
    return loaded
