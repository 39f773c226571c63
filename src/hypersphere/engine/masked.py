"""Reductions over the columns of a block of similarities in which some columns do not count.

Similarities stay finite and a boolean mask says which count: filling with -inf outside these functions would
give 0·inf = NaN in the gradient of a temperature, and break logarithms and powers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine.mask import count, fill, filled, known_to_hold

CHUNK = 256


@dataclass
class Few:
    """A gradient that is 0 but at a few places of ``of``."""

    of: Tensor
    rows: Tensor
    columns: Tensor
    values: Tensor

    def add_to(self, goal: Tensor) -> None:
        goal.index_put_((self.rows, self.columns), self.values, accumulate=True)


@dataclass
class _Once:
    leaves: Sequence[Tensor]
    few: list[Few]


_once: ContextVar[_Once | None] = ContextVar("once", default=None)


@contextmanager
def differentiated_once(leaves: Sequence[Tensor] | None = ()) -> Iterator[list[Few]]:
    """A promise that graphs built inside are run backward at most once, so that backward may reuse their memory, and
    that the few entries it then finds in the list are added to the gradients of ``leaves``. None: no promise."""
    found: list[Few] = []
    token = _once.set(None if leaves is None else _Once(leaves, found))
    try:
        yield found
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
    powers = filled(x, mask, lowest)
    powers.sub_(powers.amax(dim=1, keepdim=True)).mul_(scale).exp_()
    return powers.mul_(powers.sum(dim=1, keepdim=True).reciprocal())


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Largest value of each row, -inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    known = filled(x, mask, -math.inf)
    return _gather(x, _argmax(known), mask, -math.inf) if x.requires_grad else known.amax(dim=1)


def masked_min(x: Tensor, mask: Tensor) -> Tensor:
    """Smallest value of each row, inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    known = filled(x, mask, math.inf)
    return _gather(x, _argmax(known.neg_()), mask, math.inf) if x.requires_grad else known.amin(dim=1)


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
    found: Tensor = x.gather(1, place) if _few(x) is None else _Gather.apply(x, place)  # type: ignore[no-untyped-call]
    return torch.where(mask.gather(1, place), found, otherwise).squeeze(1)


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Sum of each row over the columns that count: (B, M) -> (B,)."""
    if _once.get() is None:
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


def weighted_sum(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_j weight_ij x_ij; the weight carries no gradient and is not to be used afterwards: (B, M) -> (B,)."""
    out: Tensor = _WeightedSum.apply(weight.detach().to(x.dtype), x)  # type: ignore[no-untyped-call]
    return out


def _total(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_ij weight_ij x_ij, without a matrix of products where nothing must be differentiated."""
    if torch.is_grad_enabled() or x.numel() >= 2**31:  # more than a dot product takes on some devices
        return (weight * x).sum()
    return torch.dot(weight.flatten(), x.flatten())


class _Gather(torch.autograd.Function):
    """One entry of each row, and few of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Tensor) -> Tensor:
        ctx.few, ctx.leaf = _few(x), x
        ctx.save_for_backward(place)
        return x.gather(1, place)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, None]:
        (place,) = ctx.saved_tensors
        rows = torch.arange(len(place), device=place.device).unsqueeze(1)
        ctx.few.append(Few(ctx.leaf, rows, place, upstream))
        return None, None


def _few(x: Tensor) -> list[Few] | None:
    """Where to list the gradient of x if it has few entries; None: it must be a matrix."""
    once = _once.get()
    return once.few if once is not None and any(x is leaf for leaf in once.leaves) else None


class _MaskedSum(torch.autograd.Function):
    """What does not count may be infinite: it is replaced, not multiplied by 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        places = known_to_hold(mask) if x.shape == mask.shape else None
        ctx.few, ctx.leaf, ctx.shape = None if places is None else _few(x), x if x.is_leaf else None, x.shape
        ctx.save_for_backward(mask)
        if places is None or not x.is_cpu:
            return filled(x, mask, 0.0).sum(dim=1)
        return x.new_zeros(len(x)).index_add_(0, places[0], x[places])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, None]:
        (mask,) = ctx.saved_tensors
        places = known_to_hold(mask)
        if ctx.few is not None and places is not None:
            ctx.few.append(Few(ctx.leaf, *places, upstream[places[0]]))
            return None, None
        return filled(upstream.unsqueeze(1).expand(ctx.shape), mask, 0.0), None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        ctx.once = _once.get() is not None
        ctx.save_for_backward(weight)
        return (weight * x).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor]:
        (weight,) = ctx.saved_tensors
        along = upstream.unsqueeze(1)
        return None, weight.mul_(along) if ctx.once and not torch.is_grad_enabled() else weight * along


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
        affine = (x * scale).add_(shift)
        ctx.once, ctx.curve, ctx.numbers = (
            _once.get(),
            curve,
            [None if isinstance(n, Tensor) else n for n in (scale, shift)],
        )
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
        slope = ctx.curve.slope(affine if ctx.once else affine.clone())
        along_x = fill(slope, mask, 0.0).mul_((upstream * scale).unsqueeze(1))
        of_scale = _total(along_x, x) / scale if needs[3] else None
        of_shift = along_x.sum() / scale if needs[4] else None
        return None, along_x, None, of_scale, of_shift


class _MaskedLogSumExp(torch.autograd.Function):
    """One exponential and no intermediate copies: twice as fast as the same with torch's own operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: Tensor | float) -> Tensor:
        powers = fill(x * scale, mask, -math.inf)
        highest = powers.amax(dim=1, keepdim=True).clamp_min_(torch.finfo(x.dtype).min)
        powers.sub_(highest).exp_()
        total = powers.sum(dim=1)
        ctx.once = _once.get() is not None
        ctx.scale = None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(x, mask, powers, total, *([scale] if isinstance(scale, Tensor) else []))
        return total.log() + highest.squeeze(1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, Tensor | None]:
        x, mask, powers, total, *rest = ctx.saved_tensors
        scale = rest[0] if rest else ctx.scale
        if torch.is_grad_enabled():  # differentiated twice: the same in torch's own operations
            along_x = masked_softmax(x, mask, scale) * mask * (upstream * scale).unsqueeze(1)
        else:  # a row where nothing counts has total 0 and powers 0
            weight = (upstream * scale / total.clamp_min(torch.finfo(x.dtype).tiny)).unsqueeze(1)
            along_x = powers.mul_(weight) if ctx.once else powers * weight
        along_scale = _total(along_x, x) / scale if ctx.needs_input_grad[2] else None
        return along_x, None, along_scale
