"""Cosine, chord, angle and tangent part of unit vectors, with finite gradients and with all digits.

2 - 2 cos has an error of about 1e-7 in float32, which is as large as the value for vectors 3e-4 apart. A distance or an
angle computed from it, and the gradient, which is its inverse, are noise there. The cosines that the engine passes to
an objective come with their vectors. Small squared distances are computed from these vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.geometry.unit import unit
from hypersphere.torch_internals import plain_operations, version_of

NEAR = 2**-6  # below this squared distance, 2 - 2 cos has fewer than five digits in float32
MISMATCH = 2**-8  # a correction larger than rounding (also that of TF32) is rejected
ROUNDING = 2**-18  # float32 cosines that differ by more are in the right order
FEW_RIVALS = 8  # up to this many for each row, distances are computed one by one

Squared = Callable[[Tensor], Tensor | None]


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosines of every row of ``a`` with every row of ``b``: (N, D), (M, D) -> (N, M).

    >>> cosine(torch.eye(2), torch.tensor([[2.0, 0.0]])).tolist()
    [[1.0], [0.0]]
    """
    return unit(a) @ unit(b).T


def squared_chord(cos: Tensor) -> Tensor:
    """‖x-y‖² = 2 - 2 cos of two unit vectors.

    >>> squared_chord(torch.tensor([-1.0, 0.5])).tolist()
    [4.0, 1.0]
    """
    exact = exact_squared(cos)
    return 2 - 2 * cos if exact is None else carried(cos, exact)


def chord(cos: Tensor, smallest: float = 1e-12) -> Tensor:
    """Euclidean distance sqrt(2 - 2 cos) of two unit vectors; flat below ``smallest`` (squared).

    The derivative of the root at 0 is infinite; at coincident points the gradient is 0 instead.

    >>> chord(torch.tensor([-1.0, 0.5])).tolist()
    [2.0, 1.0]
    """
    least = max(smallest, torch.finfo(cos.dtype).tiny) if smallest else 0.0  # above 0 in half precision too
    return squared_chord(cos).clamp_min(least).sqrt()


def angle(cos: Tensor, margin: float | None = None) -> Tensor:
    """arccos with the cosine kept ``margin`` inside [-1, 1] (default 1e-7, float64: 1e-14, half precision: its
    rounding; 1e-14 where it comes with its vectors): finite gradient.

    >>> round(float(angle(torch.tensor(0.0, dtype=torch.float64))), 6)
    1.570796
    """
    inside = margin if margin is not None else (1e-14 if cos.dtype == torch.float64 else 1e-7)
    inside = max(inside, torch.finfo(cos.dtype).eps) if inside else inside  # half precision distinguishes this from 1
    angles = cos.clamp(-1 + inside, 1 - inside).arccos()
    exact = exact_squared(cos)
    if exact is None:
        return angles
    least = 2 * (1e-14 if margin is None else margin)
    near = 2 * (carried(cos, exact).clamp(least, NEAR).sqrt() / 2).arcsin()
    return torch.where(exact < NEAR, near, angles)


def tangent(vectors: Tensor, at: Tensor) -> Tensor:
    """Part of each row of ``vectors`` orthogonal to the unit row ``at``: (I - h hᵀ) v.

    >>> tangent(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0]])).tolist()
    [[0.0, 1.0]]
    """
    return vectors - at * (vectors * at).sum(dim=-1, keepdim=True)


# ---------------------------------------------------------------------------------------- vectors that nearly coincide


def with_vectors(cos: Tensor, squared: Squared) -> Tensor:
    """The same tensor with a function that computes its squared distances if they are needed; the function returns None
    if they are no better than 2 - 2 cos."""
    cos._squared = (squared, version_of(cos))  # type: ignore[attr-defined]
    return cos


def vectors_of(cos: Tensor) -> Squared | None:
    """The function attached to a tensor; None if there is none, the tensor changed, or only torch's own operations may
    run."""
    squared: Squared | None
    squared, version = getattr(cos, "_squared", (None, None))
    if squared is None or plain_operations():
        return None
    return squared if version == version_of(cos) else None


def detached(cos: Tensor) -> Tensor:
    """The tensor without its gradient, but with its vectors."""
    known, bare = vectors_of(cos), cos.detach()
    return bare if known is None else with_vectors(bare, known)


def exact_squared(cos: Tensor) -> Tensor | None:
    """Squared distances without gradient, from the vectors where they are near; None: 2 - 2 cos is as accurate."""
    known = vectors_of(cos)
    return None if known is None else known(cos.detach())


def corrected(cos: Tensor, exact: Tensor) -> Tensor:
    """2 - 2 cos, replaced by ``exact`` where the vectors are near and the two agree up to rounding."""
    plain = 2 - 2 * cos
    return torch.where((plain < NEAR) & ((exact - plain).abs() < MISMATCH), exact, plain)


def carried(cos: Tensor, exact: Tensor) -> Tensor:
    """The value of ``exact`` with the gradient of 2 - 2 cos."""
    plain = 2 - 2 * cos
    known = plain.detach()
    return plain + torch.where(exact == known, 0, exact - known)


@dataclass(frozen=True)
class PairDistances:
    """Squared distances of the rows of one matrix to those of another, one by one."""

    x: Tensor  # (B, D)
    y: Tensor  # (B, D)

    @torch.no_grad()
    def __call__(self, cos: Tensor) -> Tensor | None:
        if cos.is_cpu and not bool((cos > 1 - NEAR / 2).any()):  # another device need not report whether any is near
            return None
        return corrected(cos, (self.x - self.y).square().sum(dim=1).to(cos.dtype))


@dataclass(frozen=True)
class MatrixDistances:
    """Squared distances of every row of a block to every key."""

    rows: Tensor  # (N, D)
    block: slice  # B of them
    keys: tuple[Tensor, ...]  # (M_1, D), …, M in all
    own: tuple[int, ...]  # the columns where diagonals begin that are skipped: those of each row's own instance
    each: Tensor | None = None  # (B, K, D) further keys, those of each row alone
    asked: list[Tensor] | None = None  # gets whether any are near, to be read later; cosines must do until then

    @torch.no_grad()
    def __call__(self, cos: Tensor) -> Tensor | None:
        if not self.more_digits(cos) or not cos.numel():
            return None
        near = cos > 1 - NEAR / 2
        for start in self.own:
            near.diagonal(start).fill_(False)
        if self.asked is not None:
            self.asked.append(near.any())
            return None
        lines = near.any(dim=1).nonzero().squeeze(1)
        if not len(lines):
            return None
        squared = 2 - 2 * cos
        squared[lines] = self.of_lines(cos, lines)
        return squared

    def more_digits(self, cos: Tensor) -> bool:
        """Whether a type with more digits than that of the cosines exists."""
        return cos.dtype != torch.float64 and cos.device.type != "mps"

    def of_lines(self, cos: Tensor, lines: Tensor) -> Tensor:
        """Squared distances of some rows to all keys: (L,) -> (L, M). In float64 a product is accurate enough."""
        rows = self.rows[self.block][lines].double()
        squared = []
        for keys in self.keys:
            wide = keys.double()
            lengths = rows.square().sum(dim=1, keepdim=True) + wide.square().sum(dim=1)
            squared.append(torch.addmm(lengths, rows, wide.T, alpha=-2).to(cos.dtype))
        if self.each is not None:
            squared.append((rows.unsqueeze(1) - self.each[lines].double()).square().sum(dim=2).to(cos.dtype))
        return corrected(cos[lines], torch.cat(squared, dim=1))

    @torch.no_grad()
    def nearest(self, cos: Tensor, largest: Tensor, mask: Tensor | None = None) -> NearestDistances | None:
        """The nearest keys, where ``largest`` (B,) is the largest cosine of each row; None: cosines distinguish them.

        mask: the keys that count (B, M); None: all, and a cosine of -inf marks those that do not.
        """
        if not self.more_digits(cos):
            return None
        near = largest > 1 - NEAR / 2
        if self.asked is not None:
            self.asked.append(near.any())
            return None
        lines = near.nonzero().squeeze(1)
        if not len(lines):
            return None
        cosines = cos[lines]
        rivals = cosines >= (largest[lines] - ROUNDING).unsqueeze(1)
        if mask is not None:
            rivals &= mask[lines]
        least, columns = self._of_rivals(cos, lines, cosines, rivals).min(dim=1, keepdim=True)
        squared = 2 - 2 * largest
        squared[lines] = least.squeeze(1)
        return NearestDistances(lines, columns, squared)

    def _of_rivals(self, cos: Tensor, lines: Tensor, cosines: Tensor, rivals: Tensor) -> Tensor:
        """Squared distances of some rows (L,) to the keys that may be their nearest, inf for all others: (L, M)."""
        line, column = rivals.nonzero(as_tuple=True)
        if len(line) > FEW_RIVALS * len(lines) or self.each is not None:
            return self.of_lines(cos, lines).masked_fill_(~rivals, math.inf)
        keys = self.keys[0] if len(self.keys) == 1 else torch.cat(self.keys)
        squared = (self.rows[self.block][lines[line]] - keys[column]).square_().sum(dim=1)
        return torch.full_like(cosines, math.inf).index_put_((line, column), corrected(cosines[line, column], squared))


@dataclass(frozen=True)
class NearestDistances:
    """Squared distances of every row to its nearest key."""

    lines: Tensor  # (L,) rows so near to their nearest key that distances decide which it is
    columns: Tensor  # (L, 1) the index of that key
    squared: Tensor  # (B,)

    def __call__(self, cos: Tensor) -> Tensor:
        return self.squared
