"""Reductions over the columns of a block of similarities in which some columns do not count.

Similarities stay finite and a boolean mask says which count: filling with -inf outside these functions would
give 0·inf = NaN in the gradient of a temperature, and break logarithms and powers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.blocks import strips_in_cache
from hypersphere.engine.listed import (
    Few,
    Scaled,
    current_promise,
    may_list,
    may_reuse,
    overlaps_similarities,
    remember_promise,
)
from hypersphere.engine.mask import count, fill, filled, known_to_hold
from hypersphere.geometry.modes import plain_operations

# Exponents up to this size, and sums of very many, stay far from the ends of float32.
MODERATE = 40.0


def masked_logsumexp(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """log Σ_j exp(scale · x_ij) over the columns where ``mask`` holds, scale > 0: (B, M) -> (B,).

    >>> x = torch.tensor([[0.0, 1.0, 5.0]])
    >>> masked_logsumexp(x, torch.tensor([[True, True, False]])).item()
    1.31326162815094
    """
    if plain_operations():
        known = torch.where(mask, x * scale, torch.finfo(x.dtype).min)
        return torch.where(mask.any(dim=1), torch.logsumexp(known, dim=1), -math.inf)
    out: Tensor = _MaskedLogSumExp.apply(x, mask, scale)  # type: ignore[no-untyped-call]
    return out


def masked_softmax(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """exp(scale · x_ij) over its row sum, 0 where the mask does not hold: (B, M) -> (B, M).

    A row in which nothing counts comes out uniform rather than NaN.
    """
    lowest = torch.finfo(x.dtype).min
    moves = x.requires_grad or (isinstance(scale, Tensor) and scale.requires_grad)
    if plain_operations() or (torch.is_grad_enabled() and moves):
        return torch.softmax(torch.where(mask, x * scale, lowest), dim=1)
    powers, total, _ = _exponentials(x.detach(), mask, scale)
    uniform = total <= 0
    if x.shape[1] and bool(uniform.any()):
        powers[uniform], total[uniform] = 1, x.shape[1]
    return powers.mul_(total.reciprocal_().unsqueeze(1))


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Sum of each row over the columns that count: (B, M) -> (B,)."""
    if current_promise() is None:
        return torch.where(mask, x, 0).sum(dim=1)
    out: Tensor = _MaskedSum.apply(x, mask)  # type: ignore[no-untyped-call]
    return out


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of each row over the columns that count, 0 if none does: (B, M) -> (B,)."""
    return masked_sum(x, mask) / count(mask).clamp_min(1)


def softmax_weighted_sum(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Σ_j w_ij x_ij, w being ``masked_softmax`` without gradient: (B, M) -> (B,)."""
    powers, total, _ = _exponentials(x.detach(), mask, scale, seen=False)
    return weighted_sum(powers, x) / total.clamp_min_(torch.finfo(x.dtype).tiny)


def weighted_sum(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_j weight_ij x_ij; the weight carries no gradient and is not to be used afterwards: (B, M) -> (B,)."""
    if plain_operations():
        return (weight.detach().to(x.dtype) * x).sum(dim=1)
    out: Tensor = _WeightedSum.apply(weight.detach().to(x.dtype), x)  # type: ignore[no-untyped-call]
    return out


def sum_of_products(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_ij weight_ij x_ij, without a matrix of products where nothing must be differentiated."""
    if torch.is_grad_enabled() or x.numel() >= 2**31:  # more than a dot product takes on some devices
        return (weight * x).sum()
    return torch.dot(weight.flatten(), x.flatten())


def _exponentials(x: Tensor, mask: Tensor, scale: Tensor | float, seen: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """exp(scale · x - highest), 0 where the mask does not hold, the sum of each row, and ``highest``: (), or (B,).

    The largest of each row is only looked for if one number will not do for all of them. seen: by others than the
    engine.
    """
    promise = current_promise()
    if promise is not None and x.is_cpu and x.numel():
        factor = scale.item() if isinstance(scale, Tensor) else scale
        least, most = (factor * float(end) for end in torch.aminmax(x[0]))
        if abs(most - least) < MODERATE:
            highest = x.new_tensor(most)
            memory = torch.empty_like(x) if seen else promise.empty_like(x)
            powers = fill(torch.add(-highest, x, alpha=factor, out=memory), mask, -math.inf)
            total = x.new_empty(len(x))
            for part in strips_in_cache(x):
                torch.sum(powers[part].exp_(), dim=1, out=total[part])
            least, most = (float(end) for end in torch.aminmax(total))
            if math.exp(-MODERATE) < least and most < math.exp(MODERATE):  # False also for NaN
                return powers, total, highest
    powers = fill(x * scale, mask, -math.inf)
    highest = powers.amax(dim=1).clamp_min_(torch.finfo(x.dtype).min) if x.shape[1] else x.new_zeros(len(x))
    powers.sub_(highest.unsqueeze(1)).exp_()
    return powers, powers.sum(dim=1), highest


class _MaskedSum(torch.autograd.Function):
    """What does not count may be infinite: it is replaced, not multiplied by 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        places = known_to_hold(mask) if x.shape == mask.shape else None
        remember_promise(ctx, x)
        ctx.shape = x.shape
        ctx.save_for_backward(mask)
        if places is None or not x.is_cpu:
            return filled(x, mask, 0.0).sum(dim=1)
        return x.new_zeros(len(x)).index_add_(0, places[0], x[places])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, None]:
        (mask,) = ctx.saved_tensors
        places = known_to_hold(mask)
        listed = may_list(ctx)
        if listed is not None and places is not None:
            listed.few.append(Few(*places, upstream[places[0]]))
            return None, None
        return filled(upstream.unsqueeze(1).expand(ctx.shape), mask, 0.0), None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        # Similarities may be overwritten before what is listed is multiplied.
        remember_promise(ctx, None if overlaps_similarities(weight) else x)
        ctx.save_for_backward(weight)
        if current_promise() is None or weight.shape != x.shape:
            return (weight * x).sum(dim=1)
        total = x.new_empty(len(x))
        for part in strips_in_cache(x):
            torch.sum(weight[part] * x[part], dim=1, out=total[part])
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor | None]:
        (weight,) = ctx.saved_tensors
        listed = may_list(ctx)
        if listed is not None:
            listed.scaled.append(Scaled(weight, upstream))
            return None, None
        return None, weight * upstream.unsqueeze(1)


class _MaskedLogSumExp(torch.autograd.Function):
    """One exponential and no intermediate copies: twice as fast as the same with torch's own operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: Tensor | float) -> Tensor:
        powers, total, highest = _exponentials(x, mask, scale, seen=False)
        remember_promise(ctx, x)
        ctx.scale = None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(x, mask, powers, total, *([scale] if isinstance(scale, Tensor) else []))
        return total.log() + highest

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        x, mask, powers, total, *rest = ctx.saved_tensors
        scale = rest[0] if rest else ctx.scale
        if torch.is_grad_enabled():  # differentiated twice: the same in torch's own operations
            along_x = masked_softmax(x, mask, scale) * mask * (upstream * scale).unsqueeze(1)
        else:  # a row where nothing counts has total 0 and powers 0
            weight = upstream * scale / total.clamp_min(torch.finfo(x.dtype).tiny)
            listed = may_list(ctx)
            if listed is not None and not ctx.needs_input_grad[2]:
                listed.scaled.append(Scaled(powers, weight))
                return None, None, None
            along_x = powers.mul_(weight.unsqueeze(1)) if may_reuse(ctx) else powers * weight.unsqueeze(1)
        along_scale = sum_of_products(along_x, x) / scale if ctx.needs_input_grad[2] else None
        return along_x, None, along_scale
