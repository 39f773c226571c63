"""Similarities that come with the unit vectors they are of, for distances of vectors that nearly coincide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.geometry.near import NEAR, corrected, vectors_of

ROUNDING = 2**-18  # cosines of float32 that differ by more are in order
FEW_RIVALS = 8  # for each row: so many distances are computed one by one


@dataclass(frozen=True)
class Positives:
    """Of the rows of one matrix with those of another, one by one."""

    x: Tensor  # (B, D)
    y: Tensor  # (B, D)

    def __call__(self, cos: Tensor) -> Tensor:
        return corrected(cos, (self.x - self.y).square().sum(dim=1).to(cos.dtype))


@dataclass(frozen=True)
class Negatives:
    """Of every row with every key."""

    rows: Tensor  # (B, D)
    keys: tuple[Tensor, ...]  # (M_1, D), …, M in all
    own: Callable[[], tuple[Tensor, Tensor]]  # where a row meets its own instance, which is never looked at

    def __call__(self, cos: Tensor) -> Tensor | None:
        if not self.sharpens(cos):
            return None
        whole, own = cos.data, self.own()  # whose changes are not noticed by autograd, as there are none in the end
        kept = whole[own]
        whole[own] = -1.0
        lines = (whole.amax(dim=1) > 1 - NEAR / 2).nonzero().squeeze(1) if whole.numel() else own[0][:0, 0]
        whole[own] = kept
        if not len(lines):
            return None
        squared = 2 - 2 * cos
        squared[lines] = self.of_lines(cos, lines)
        return squared

    def sharpens(self, cos: Tensor) -> bool:
        """Whether there is a type with more digits than the cosines have."""
        return cos.dtype != torch.float64 and cos.device.type != "mps"

    def of_lines(self, cos: Tensor, lines: Tensor) -> Tensor:
        """Squared distances of some rows to all keys: (L,) -> (L, M). In float64, so that a product will do."""
        rows = self.rows[lines].double()
        found = []
        for keys in self.keys:
            wide = keys.double()
            lengths = rows.square().sum(dim=1, keepdim=True) + wide.square().sum(dim=1)
            found.append(torch.addmm(lengths, rows, wide.T, alpha=-2).to(cos.dtype))
        return corrected(cos[lines], torch.cat(found, dim=1))

    def of_rivals(self, cos: Tensor, lines: Tensor, mask: Tensor, largest: Tensor) -> Tensor:
        """The same for those keys alone that may be the nearest of some rows (L,), inf for others: (L, M)."""
        cosines = cos[lines]
        rivals = (cosines >= (largest - ROUNDING).unsqueeze(1)) & mask
        line, column = rivals.nonzero(as_tuple=True)
        if len(line) > FEW_RIVALS * len(lines):
            return self.of_lines(cos, lines).masked_fill_(~rivals, math.inf)
        keys = self.keys[0] if len(self.keys) == 1 else torch.cat(self.keys)
        squared = (self.rows[lines[line]] - keys[column]).square_().sum(dim=1)
        rivals_at = (line, column)
        return torch.full_like(cosines, math.inf).index_put_(rivals_at, corrected(cosines[rivals_at], squared))


@dataclass(frozen=True)
class Closest:
    """Of every row with its nearest key."""

    lines: Tensor  # (L,) rows whose nearest key is so near that distances tell which it is
    columns: Tensor  # (L, 1) where that stands
    squared: Tensor  # (B,)

    def __call__(self, cos: Tensor) -> Tensor:
        return self.squared


def closest_of(cos: Tensor, mask: Tensor, largest: Tensor) -> Closest | None:
    """The nearest keys among those that count, ``largest`` (B,) being the cosine of each; None: cosines do."""
    vectors = vectors_of(cos)
    if not isinstance(vectors, Negatives) or not vectors.sharpens(cos):
        return None
    lines = (largest > 1 - NEAR / 2).nonzero().squeeze(1)
    if not len(lines):
        return None
    distances = vectors.of_rivals(cos.detach(), lines, mask[lines], largest[lines])
    least, columns = distances.min(dim=1, keepdim=True)
    squared = 2 - 2 * largest
    squared[lines] = least.squeeze(1)
    return Closest(lines, columns, squared)
