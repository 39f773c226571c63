"""Embeddings as rows that are read a block at a time, whether they lie in memory or in a mapped file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

BLOCK_VALUES = 1 << 20  # numbers of a block: 4 MB in float32, 8 MB in float64


class Rows:
    """An (N, D) array of numbers: a tensor, a numpy array, or anything numpy reads as one; never copied whole."""

    def __init__(self, values: Any, name: str) -> None:
        self.name = name
        self.values: Any = values.detach() if isinstance(values, Tensor) else _array(values, name)
        self.shape = tuple(self.values.shape)
        if len(self.shape) != 2:
            raise ValueError(f"{name} must be an array of shape (N, D), one row for each embedding, not {self.shape}")
        if self.shape[0] < 2:
            raise ValueError(f"{name} has {self.shape[0]} row{'' if self.shape[0] else 's'}; a check-up compares rows, "
                             "so it needs at least two")  # fmt: skip
        if self.shape[1] < 2:
            raise ValueError(f"{name} has {self.shape[1]} column{'' if self.shape[1] else 's'}; directions need two")
        kind = str(self.values.dtype)
        if any(word in kind for word in ("complex", "bool", "object", "str", "<U", "|S", "datetime")):
            raise ValueError(f"{name} must hold real numbers, not {kind}")

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def dims(self) -> int:
        return int(self.shape[1])

    def blocks(self) -> Iterator[Tensor]:
        """Consecutive rows as tensors in float32 or better; the first NaN or Inf ends it with one sentence."""
        size = max(1, BLOCK_VALUES // self.dims)
        for start in range(0, len(self), size):
            block = _tensor(self.values[start : start + size])
            if not bool(block.isfinite().all()):
                self._refuse_infinite(start, size)
            yield block

    def take(self, indices: Tensor) -> Tensor:
        """The rows at ``indices``, as a tensor."""
        if isinstance(self.values, Tensor):
            return _tensor(self.values[indices.to(self.values.device)])
        return _tensor(self.values[indices.numpy()])

    def _refuse_infinite(self, first: int, size: int) -> None:
        bad: list[int] = []
        for start in range(first, len(self), size):
            rows = ~_tensor(self.values[start : start + size]).isfinite().all(dim=1)
            bad += (rows.nonzero().flatten() + start).tolist()
        shown = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise ValueError(f"{self.name} holds NaN or Inf in {len(bad)} of {len(self)} rows (row {shown})")


def _array(values: Any, name: str) -> Any:
    try:
        return np.asanyarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of shape (N, D), not rows of different lengths") from error


def _tensor(block: Any) -> Tensor:
    """A block in float32, or float64 where it has the digits; a mapped file's block is copied out of it."""
    if not isinstance(block, Tensor):
        digits = np.result_type(block.dtype, np.float32)
        return torch.from_numpy(np.array(block, dtype=np.float64 if digits.itemsize > 4 else np.float32))
    return block if block.dtype == torch.float64 else block.float()
