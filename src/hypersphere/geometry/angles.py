"""Cosine, chord, angle and tangent part, all with finite gradients where the mathematics allows one."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.geometry.near import NEAR, carried, exact_squared, squared_chord
from hypersphere.geometry.unit import unit


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosines of every row of ``a`` with every row of ``b``: (N, D), (M, D) -> (N, M).

    >>> cosine(torch.eye(2), torch.tensor([[2.0, 0.0]])).tolist()
    [[1.0], [0.0]]
    """
    return unit(a) @ unit(b).T


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
