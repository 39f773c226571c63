"""Reductions over the columns of a block of similarities in which some columns do not count.

Similarities stay finite and a boolean mask says which count: filling with -inf outside these functions would
give 0·inf = NaN in the gradient of a temperature, and break logarithms and powers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

_once: ContextVar[bool] = ContextVar("once", default=False)


@contextmanager
def differentiated_once() -> Iterator[None]:
    """A promise that graphs built inside are run backward at most once, so that backward may reuse their memory."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


def masked_logsumexp(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """log Σ_j exp(scale · x_ij) over the columns where ``mask`` holds, scale > 0: (B, M) -> (B,).

    >>> x = torch.tensor([[0.0, 1.0, 5.0]])
    >>> masked_logsumexp(x, torch.tensor([[True, True, False]])).item()
    1.31326162815094
    """
    out: Tensor = _MaskedLogSumExp.apply(x, mask, scale)  # type: ignore[no-untyped-call]
    return out


def masked_softmax(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """exp(scale · x_ij) over its row sum, 0 where the mask does not hold: (B, M) -> (B, M).

    A row in which nothing counts comes out uniform rather than NaN.
    """
    lowest = torch.finfo(x.dtype).min
    if torch.is_grad_enabled() and (x.requires_grad or (isinstance(scale, Tensor) and scale.requires_grad)):
        return torch.softmax(torch.where(mask, x * scale, lowest), dim=1)
    powers = torch.where(mask, x, lowest)
    powers.sub_(powers.amax(dim=1, keepdim=True)).mul_(scale).exp_()
    return powers.mul_(powers.sum(dim=1, keepdim=True).reciprocal())


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Largest value of each row, -inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    known = torch.where(mask, x.detach(), -math.inf)
    return _gather(x, known.argmax(dim=1, keepdim=True), mask, -math.inf) if x.requires_grad else known.amax(dim=1)


def masked_min(x: Tensor, mask: Tensor) -> Tensor:
    """Smallest value of each row, inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    known = torch.where(mask, x.detach(), math.inf)
    return _gather(x, known.argmin(dim=1, keepdim=True), mask, math.inf) if x.requires_grad else known.amin(dim=1)


def _gather(x: Tensor, place: Tensor, mask: Tensor, otherwise: float) -> Tensor:
    return torch.where(mask.gather(1, place), x.gather(1, place), otherwise).squeeze(1)


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Sum of each row over the columns that count: (B, M) -> (B,)."""
    return torch.where(mask, x, 0).sum(dim=1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of each row over the columns that count: (B, M) -> (B,)."""
    return masked_sum(x, mask) / count(mask)


def count(mask: Tensor) -> Tensor:
    """How many columns count in each row: (B, M) -> (B,)."""
    return mask.sum(dim=1, dtype=torch.int32)  # five times as fast as the default int64


class _MaskedLogSumExp(torch.autograd.Function):
    """One exponential and no intermediate copies: twice as fast as the same with torch's own operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: Tensor | float) -> Tensor:
        powers = torch.where(mask, x, -math.inf)
        highest = powers.amax(dim=1, keepdim=True).clamp_min_(torch.finfo(x.dtype).min)
        powers.sub_(highest).mul_(scale).exp_()
        total = powers.sum(dim=1)
        ctx.once = _once.get()
        ctx.scale = None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(x, mask, powers, total, *([scale] if isinstance(scale, Tensor) else []))
        return total.log() + (highest * scale).squeeze(1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, Tensor | None]:
        x, mask, powers, total, *rest = ctx.saved_tensors
        scale = rest[0] if rest else ctx.scale
        if torch.is_grad_enabled():  # differentiated twice: the same in torch's own operations
            along_x = masked_softmax(x, mask, scale) * mask * (upstream * scale).unsqueeze(1)
        else:  # a row where nothing counts has total 0 and powers 0
            weight = (upstream * scale / total.clamp_min(torch.finfo(x.dtype).tiny)).unsqueeze(1)
            along_x = powers.mul_(weight) if ctx.once else powers * weight
        along_scale = ((along_x * x).sum() / scale).reshape(scale.shape) if ctx.needs_input_grad[2] else None
        return along_x, None, along_scale
