"""Reductions over the columns of a block of similarities in which some columns do not count.

Similarities stay finite and a boolean mask says which count: filling with -inf outside these functions would
give 0·inf = NaN in the gradient of a temperature, and break logarithms and powers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine.blocks import strips_in_cache
from hypersphere.engine.listed import Few, Listed, Scaled, current_promise, is_similarities, overlaps_similarities
from hypersphere.engine.mask import count, fill, filled, known_not_to_hold, known_to_hold

CHUNK = 256
# Exponents up to this size, and sums of very many, stay far from the ends of float32.
MODERATE = 40.0


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
    powers, total, _ = _exponentials(x.detach(), mask, scale)
    uniform = total <= 0
    if x.shape[1] and bool(uniform.any()):
        powers[uniform], total[uniform] = 1, x.shape[1]
    return powers.mul_(total.reciprocal_().unsqueeze(1))


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Largest value of each row, -inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    with _with_others(x, mask, -math.inf) as known:
        if not x.requires_grad:
            return known.amax(dim=1)
        place = _argmax(known)
    return _gather(x, place, mask, -math.inf)


def masked_min(x: Tensor, mask: Tensor) -> Tensor:
    """Smallest value of each row, inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    known = filled(x, mask, math.inf)
    return _gather(x, _argmax(known.neg_()), mask, math.inf) if x.requires_grad else known.amin(dim=1)


@contextmanager
def _with_others(x: Tensor, mask: Tensor, value: float) -> Iterator[Tensor]:
    """x without its gradient, with ``value`` where the mask does not hold; x itself, for as long as it takes, if it is
    nobody else's and these places are few."""
    places = known_not_to_hold(mask)
    if places is None or x.shape != mask.shape or not is_similarities(x):
        yield filled(x, mask, value)
        return
    whole = x.data  # whose changes are not noticed by autograd, as there are none in the end
    kept = whole[places]
    whole[places] = value
    try:
        yield whole
    finally:
        whole[places] = kept


def _argmax(x: Tensor) -> Tensor:
    """Where the largest entry of each row stands, (B, M) -> (B, 1): the best chunk first, then the place in it, which
    is several times as fast as torch's own on a processor."""
    columns, whole = x.shape[1], x.shape[1] - x.shape[1] % CHUNK
    if columns < 2 * CHUNK:
        return x.argmax(dim=1, keepdim=True)
    best = x[:, :whole].unflatten(1, (-1, CHUNK)).amax(dim=2)
    if whole < columns:
        best = torch.cat([best, x[:, whole:].amax(dim=1, keepdim=True)], dim=1)
    places = best.argmax(dim=1, keepdim=True) * CHUNK + torch.arange(CHUNK, device=x.device)
    places = places.clamp_max(columns - 1)
    found: Tensor = places.gather(1, x.gather(1, places).argmax(dim=1, keepdim=True))
    return found


def _gather(x: Tensor, place: Tensor, mask: Tensor, otherwise: float) -> Tensor:
    promise = current_promise()
    listed = promise is not None and promise.of(x) is not None
    found: Tensor = _Gather.apply(x, place) if listed else x.gather(1, place)  # type: ignore[no-untyped-call]
    return torch.where(mask.gather(1, place), found, otherwise).squeeze(1)


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Sum of each row over the columns that count: (B, M) -> (B,)."""
    if current_promise() is None:
        return torch.where(mask, x, 0).sum(dim=1)
    out: Tensor = _MaskedSum.apply(x, mask)  # type: ignore[no-untyped-call]
    return out


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of each row over the columns that count: (B, M) -> (B,)."""
    return masked_sum(x, mask) / count(mask)


def masked_sum_of(
    curve: Curve, x: Tensor, mask: Tensor, scale: Tensor | float = 1.0, shift: Tensor | float = 0.0
) -> Tensor:
    """Σ_j f(scale · x_ij + shift) over the columns that count, f a ``Curve``: (B, M) -> (B,).

    scale, not 0, and shift are numbers or tensors of one.

    >>> x = torch.tensor([[0.0, 1.0, 5.0]])
    >>> round(masked_sum_of(SOFTPLUS, x, torch.tensor([[True, True, False]])).item(), 5)
    2.00641
    """
    out: Tensor = _MaskedSumOf.apply(curve, x, mask, scale, shift)  # type: ignore[no-untyped-call]
    return out


def softmax_weighted_sum(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Σ_j w_ij x_ij, w being ``masked_softmax`` without gradient: (B, M) -> (B,)."""
    powers, total, _ = _exponentials(x.detach(), mask, scale, seen=False)
    return weighted_sum(powers, x) / total.clamp_min_(torch.finfo(x.dtype).tiny)


def weighted_sum(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_j weight_ij x_ij; the weight carries no gradient and is not to be used afterwards: (B, M) -> (B,)."""
    out: Tensor = _WeightedSum.apply(weight.detach().to(x.dtype), x)  # type: ignore[no-untyped-call]
    return out


def _total(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_ij weight_ij x_ij, without a matrix of products where nothing must be differentiated."""
    if torch.is_grad_enabled() or x.numel() >= 2**31:  # more than a dot product takes on some devices
        return (weight * x).sum()
    return torch.dot(weight.flatten(), x.flatten())


def _affine(x: Tensor, scale: Tensor | float, shift: Tensor | float) -> Tensor:
    """scale · x + shift, in one pass where that is possible without waiting for a device."""
    if not x.is_cpu:
        return (x * scale).add_(shift)
    factor, start = (n.item() if isinstance(n, Tensor) else n for n in (scale, shift))
    promise = current_promise()
    return torch.add(x.new_tensor(start), x, alpha=factor, out=None if promise is None else promise.empty_like(x))


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


def _remember_promise(ctx: Any, x: Tensor | None) -> None:
    ctx.promise = current_promise()
    ctx.listed = None if ctx.promise is None or x is None else ctx.promise.of(x)


def _may_reuse(ctx: Any) -> bool:
    """Whether memory will not be needed again."""
    return ctx.promise is not None and ctx.promise.built


def _may_list(ctx: Any) -> Listed | None:
    """Where to list the gradient of the leaf; None: it must be a matrix."""
    listed: Listed | None = ctx.listed
    return listed if _may_reuse(ctx) else None


class _Gather(torch.autograd.Function):
    """One entry of each row, and few of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Tensor) -> Tensor:
        _remember_promise(ctx, x)
        ctx.shape = x.shape
        ctx.save_for_backward(place)
        return x.gather(1, place)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, None]:
        (place,) = ctx.saved_tensors
        listed = _may_list(ctx)
        if listed is None:
            return upstream.new_zeros(ctx.shape).scatter(1, place, upstream), None
        rows = torch.arange(len(place), device=place.device).unsqueeze(1)
        listed.few.append(Few(rows, place, upstream))
        return None, None


class _MaskedSum(torch.autograd.Function):
    """What does not count may be infinite: it is replaced, not multiplied by 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        places = known_to_hold(mask) if x.shape == mask.shape else None
        _remember_promise(ctx, x)
        ctx.shape = x.shape
        ctx.save_for_backward(mask)
        if places is None or not x.is_cpu:
            return filled(x, mask, 0.0).sum(dim=1)
        return x.new_zeros(len(x)).index_add_(0, places[0], x[places])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, None]:
        (mask,) = ctx.saved_tensors
        places = known_to_hold(mask)
        listed = _may_list(ctx)
        if listed is not None and places is not None:
            listed.few.append(Few(*places, upstream[places[0]]))
            return None, None
        return filled(upstream.unsqueeze(1).expand(ctx.shape), mask, 0.0), None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        # Similarities may be overwritten before what is listed is multiplied.
        _remember_promise(ctx, None if overlaps_similarities(weight) else x)
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
        listed = _may_list(ctx)
        if listed is not None:
            listed.scaled.append(Scaled(weight, upstream))
            return None, None
        return None, weight * upstream.unsqueeze(1)


@dataclass(frozen=True)
class Curve:
    """A function of numbers and its derivative; the latter may overwrite its argument and return it."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


SOFTPLUS = Curve(lambda a: softplus(a, threshold=50), torch.sigmoid_)
LOGARITHM = Curve(torch.log, torch.reciprocal_)


class _MaskedSumOf(torch.autograd.Function):
    """Two copies of x instead of one for each operation and each of their gradients."""

    @staticmethod
    def forward(
        ctx: Any, curve: Curve, x: Tensor, mask: Tensor, scale: Tensor | float, shift: Tensor | float
    ) -> Tensor:
        affine = _affine(x, scale, shift)
        _remember_promise(ctx, x)
        ctx.curve = curve
        ctx.numbers = [None if isinstance(n, Tensor) else n for n in (scale, shift)]
        ctx.save_for_backward(x, mask, affine, *(n for n in (scale, shift) if isinstance(n, Tensor)))
        return fill(curve.value(affine), mask, 0.0).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, affine, *tensors = ctx.saved_tensors
        scale, shift = (tensors.pop(0) if n is None else n for n in ctx.numbers)
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():  # differentiated twice: the same in torch's own operations
            # In aliases, since one of the three may depend on another.
            x, scale, shift = (n.view_as(n) if isinstance(n, Tensor) else n for n in (x, scale, shift))
            total = torch.where(mask, ctx.curve.value(x * scale + shift), 0).sum(dim=1)
            wanted = [n for n in (x, scale, shift) if isinstance(n, Tensor) and n.requires_grad]
            found = list(torch.autograd.grad(total, wanted, upstream, create_graph=True))
            return None, found.pop(0) if needs[1] else None, None, *(found.pop(0) if n else None for n in needs[3:])
        slope = fill(ctx.curve.slope(affine if _may_reuse(ctx) else affine.clone()), mask, 0.0)
        listed = _may_list(ctx)
        if listed is not None and not (needs[3] or needs[4]):
            listed.scaled.append(Scaled(slope, upstream * scale))
            return None, None, None, None, None
        along_x = slope.mul_((upstream * scale).unsqueeze(1))
        of_scale = _total(along_x, x) / scale if needs[3] else None
        of_shift = along_x.sum() / scale if needs[4] else None
        return None, along_x, None, of_scale, of_shift


class _MaskedLogSumExp(torch.autograd.Function):
    """One exponential and no intermediate copies: twice as fast as the same with torch's own operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: Tensor | float) -> Tensor:
        powers, total, highest = _exponentials(x, mask, scale, seen=False)
        _remember_promise(ctx, x)
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
            listed = _may_list(ctx)
            if listed is not None and not ctx.needs_input_grad[2]:
                listed.scaled.append(Scaled(powers, weight))
                return None, None, None
            along_x = powers.mul_(weight.unsqueeze(1)) if _may_reuse(ctx) else powers * weight.unsqueeze(1)
        along_scale = _total(along_x, x) / scale if ctx.needs_input_grad[2] else None
        return along_x, None, along_scale
