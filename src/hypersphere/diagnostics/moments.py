"""Measures from one pass over the rows: sums, second moments, lengths, repeated and empty rows."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hypersphere.diagnostics.measures import spectrum, without_noise
from hypersphere.diagnostics.rows import Rows
from hypersphere.geometry import normalize, unit


class Moments:
    """Sums over the rows of one view, block by block, in float64: D² numbers for any N.

    With no more rows than dimensions the second moment is not kept; the spectrum then comes from the rows' products.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        dims = rows.dims
        self.count = 0
        self.sum = torch.zeros(dims, dtype=torch.float64)  # of unit rows
        self.squares = torch.zeros(dims, dtype=torch.float64)
        self.second = torch.zeros(dims, dims, dtype=torch.float64) if len(rows) > dims else None  # HᵀH
        self._pivot = torch.zeros(dims, dtype=torch.float64)  # near the raw rows: no digits are lost in their variance
        self._scale = 1.0  # about the size of the raw rows: their squares may overflow float64
        self._raw_sum, self._raw_squares = torch.zeros_like(self._pivot), torch.zeros_like(self._pivot)
        # allocated at once: small buffers kept between large temporary ones would fragment the memory
        self.lengths = torch.zeros(len(rows), dtype=torch.float64)
        self._marks = torch.zeros(len(rows), dtype=torch.int64)

    def add(self, block: Tensor) -> Tensor:
        """Adds a block of raw rows to the sums, and returns its unit rows."""
        h, inverse = normalize(block.cpu())
        own = slice(self.count, self.count + len(block))
        self.lengths[own] = torch.where(inverse > 0, inverse.reciprocal(), 0.0).flatten()
        self._marks[own] = _marks(block)
        wide = h.double()
        raw = block.cpu().double()
        if self.count == 0:
            self._scale = size(raw)
            self._pivot = (raw / self._scale).mean(dim=0)
        self.count += len(h)
        self.sum += wide.sum(dim=0)
        self.squares += torch.linalg.vector_norm(wide, dim=0).square()
        if self.second is not None:
            self.second.addmm_(wide.T, wide)
        raw = raw / self._scale - self._pivot  # a new tensor: the rows belong to the caller
        self._raw_sum += raw.sum(dim=0)
        self._raw_squares += torch.linalg.vector_norm(raw, dim=0).square()
        return h

    @property
    def mean(self) -> Tensor:
        return self.sum / self.count

    @property
    def variance(self) -> Tensor:
        """(D,) of the unit rows, divided by N: its sum is 1 - ‖mean‖²."""
        return (self.squares / self.count - self.mean**2).clamp_min(0)

    @property
    def raw_variance(self) -> Tensor:
        """(D,) variance of the raw rows, in units of their size."""
        return (self._raw_squares / self.count - (self._raw_sum / self.count) ** 2).clamp_min(0)

    @property
    def raw_size(self) -> float:
        """Root mean square of the raw entries, in units of their size."""
        shifted = self.raw_variance + (self._raw_sum / self.count + self._pivot) ** 2
        return float(shifted.mean().sqrt())

    @property
    def repeated(self) -> int:
        """Rows that repeat an earlier row bit by bit (up to collisions of a 64-bit hash)."""
        return self.count - len(self._marks.unique())

    def equal(self, one: int, other: int) -> bool:
        return bool(self._marks[one] == self._marks[other])

    def copies(self, most: int) -> list[tuple[list[int], int]]:
        """Groups of equal rows, the largest first, at most ``most``: the first five rows of each, and how many."""
        if not self.repeated:
            return []
        marks, counts = self._marks.unique(return_counts=True)
        largest = counts.argsort(descending=True, stable=True)[:most]
        groups = [((self._marks == marks[place]).nonzero().flatten(), int(counts[place])) for place in largest]
        return [(rows[:5].tolist(), count) for rows, count in groups if count > 1]

    def eigenvalues(self, centre: bool) -> Tensor:
        """Eigenvalues of HᵀH/N, or of the covariance, largest first."""
        if self.second is None:
            every = unit(self.rows.take(torch.arange(len(self.rows))).cpu())
            return spectrum(every, centre) / self.count
        square = self.second / self.count
        if centre:
            square = square - torch.outer(self.mean, self.mean)
        return without_noise(torch.linalg.eigvalsh(square), self.count, scale=1.0)


def size(values: Tensor) -> float:
    """The next power of two above the largest value: a division by it loses no digit and keeps squares in range."""
    return 2.0 ** min(max(math.frexp(float(values.abs().max()))[1], -1000), 1000)


def _marks(block: Tensor) -> Tensor:
    """(n,) a 64-bit hash of each row's bytes; -0 counts as 0."""
    plain = np.ascontiguousarray((block + 0.0).cpu().numpy())
    return torch.tensor([hash(row.tobytes()) for row in plain], dtype=torch.int64)
