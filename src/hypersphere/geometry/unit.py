"""Rows of any size, scaled to length one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.torch_internals import plain_operations

# Squares of norms inside this range neither overflow nor lose digits in float32.
_SAFE = (1e-15, 1e15)


def unit(z: Tensor) -> Tensor:
    """Rows of ``z`` scaled to unit length; a zero row stays zero and receives no gradient.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0], [3e30, 4e30]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000],
            [0.6000, 0.8000]])
    """
    return normalize(z)[0]


def normalize(z: Tensor, name: str = "z") -> tuple[Tensor, Tensor]:
    """Unit rows h (N, D) and the inverse norms (N, 1), in float32 or better.

    The gradient with respect to z is (I - h hᵀ) ∂L/∂h times the inverse norm, which is 0 for a zero row.
    """
    if not z.is_floating_point():
        raise ValueError(f"{name} must hold floating point numbers, not {z.dtype}")
    z = widened(z)
    plain = plain_operations()
    norm = torch.linalg.vector_norm(z if plain else z.detach(), dim=1, keepdim=True)
    if norm.numel() == 0:
        return z, norm
    smallest, largest = torch.aminmax(norm.detach())
    if _SAFE[0] < smallest.item() and largest.item() < _SAFE[1]:  # False also for NaN
        inverse = norm.reciprocal()
        h: Tensor = z * inverse if plain else _Scaled.apply(z, inverse)  # type: ignore[no-untyped-call]
        return h, inverse.detach()
    return _normalize_extreme(z, name)


def widened(z: Tensor) -> Tensor:
    """Rows in float32 or better. A row of float16 without one normal number (all below 6.1e-5) counts as zero: few bits
    of its direction are left, and its gradient, which grows as the inverse of its length, is beyond float16."""
    if z.dtype in (torch.float32, torch.float64):
        return z
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    if z.dtype != torch.float16 or not z.numel():
        return wide
    return wide * has_normal_numbers(z)


def has_normal_numbers(z: Tensor) -> Tensor:
    """True (N, 1) for rows with a number that has all digits of its type."""
    return z.detach().abs().amax(dim=1, keepdim=True) >= torch.finfo(z.dtype).tiny


class _Scaled(torch.autograd.Function):
    """z times its inverse norm. Its gradient takes half the time of the gradient of a norm, which must handle zeros."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, inverse: Tensor) -> Tensor:
        h = z * inverse
        ctx.save_for_backward(z, inverse, h)
        return h

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        z, inverse, h = ctx.saved_tensors
        twice = torch.is_grad_enabled()
        if twice:  # the norm depends on z
            inverse = torch.linalg.vector_norm(z, dim=1, keepdim=True).reciprocal()
            h = z * inverse
        along = (upstream * h).sum(dim=1, keepdim=True)
        tangential = torch.addcmul(upstream, along, h, value=-1)
        return (tangential * inverse if twice else tangential.mul_(inverse)), None


class NotFiniteRowsError(ValueError):
    """Rows hold NaN or Inf."""


def require_finite(z: Tensor, name: str) -> None:
    """One sentence that names the rows with NaN or Inf, if there are any."""
    if z.detach().sum().isfinite():  # the sum is not finite if any entry is not
        return
    bad = (~z.detach().isfinite().all(dim=1)).nonzero().flatten()
    if len(bad):
        rows = ", ".join(str(int(row)) for row in bad[:5]) + (", …" if len(bad) > 5 else "")
        raise NotFiniteRowsError(f"{name} holds NaN or Inf in {len(bad)} of {len(z)} rows (row {rows})")


def _normalize_extreme(z: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Zero, tiny and huge rows: scale each row by its largest entry before taking the norm."""
    require_finite(z, name)
    largest = z.detach().abs().amax(dim=1, keepdim=True)
    limits = torch.finfo(z.dtype)
    counts = largest > limits.tiny / limits.eps  # below this 1/norm overflows; the row counts as zero
    scale = torch.where(counts, largest, 1.0)
    scaled = z / scale
    norm = torch.where(counts, torch.linalg.vector_norm(scaled, dim=1, keepdim=True), 1.0)
    return scaled * (counts / norm), (counts / (norm * scale)).detach()
