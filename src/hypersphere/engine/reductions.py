"""Reductions over the columns of a block of similarities, of which some do not count: what a formula is made of.

Similarities stay finite, and a boolean mask marks those that count. Filling with -inf outside these functions would
give 0·inf = NaN in the gradient of a temperature, and break logarithms and powers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine.mask import (
    CACHED_ELEMENTS,
    Entries,
    argmax,
    count,
    fill_entries,
    fill_outside,
    filled_outside,
    known_to_hold,
    rows_in_cache,
)
from hypersphere.engine.objective import MODERATE, SMALLEST
from hypersphere.geometry.distances import MatrixDistances, vectors_of, with_vectors
from hypersphere.torch_internals import graph_is_freed, plain_operations

# ------------------------------------------------------------------------------------------------------ sums and means


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Sum of each row over the columns that count: (B, M) -> (B,). Other columns may be infinite."""
    entries = known_to_hold(mask) if x.shape == mask.shape else None
    if entries is None or not x.is_cpu or plain_operations():
        return torch.where(mask, x, 0).sum(dim=1)
    return x.new_zeros(len(x)).index_add(0, entries[0], x[entries])


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of each row over the columns that count, 0 if none does: (B, M) -> (B,)."""
    return masked_sum(x, mask) / count(mask).clamp_min(1)


def weighted_sum(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_j weight_ij x_ij; the weight carries no gradient: (B, M) -> (B,)."""
    if plain_operations():
        return (weight.detach().to(x.dtype) * x).sum(dim=1)
    out: Tensor = _WeightedSum.apply(weight.detach().to(x.dtype), x)  # type: ignore[no-untyped-call]
    return out


class _WeightedSum(torch.autograd.Function):
    """A product for each row, without a matrix of products."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        weight = weight.expand_as(x)
        rows = rows_in_cache(x)
        return torch.cat([(w * part).sum(dim=1) for w, part in zip(weight.split(rows), x.split(rows), strict=True)])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor]:
        (weight,) = ctx.saved_tensors
        return None, weight * upstream.unsqueeze(1)


def sum_of_products(weight: Tensor, x: Tensor) -> Tensor:
    """Σ_ij weight_ij x_ij, without a matrix of products where nothing is differentiated."""
    if torch.is_grad_enabled() or x.numel() >= 2**31:  # more than a dot product takes on some devices
        return (weight * x).sum()
    return torch.dot(weight.reshape(-1), x.reshape(-1))


# -------------------------------------------------------------------------------------------------------- exponentials


def masked_logsumexp(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """log Σ_j exp(scale · x_ij) over the columns that count, scale > 0; -inf if none does: (B, M) -> (B,).

    >>> x = torch.tensor([[0.0, 1.0, 5.0]])
    >>> round(masked_logsumexp(x, torch.tensor([[True, True, False]])).item(), 5)
    1.31326
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
    return torch.softmax(fill_outside(x.detach() * scale, mask, lowest), dim=1)


def softmax_weighted_sum(x: Tensor, mask: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Σ_j w_ij x_ij, w being ``masked_softmax`` without gradient: (B, M) -> (B,)."""
    powers, total, _ = _exponentials(x.detach(), mask, scale)
    return weighted_sum(powers, x) / total.clamp_min_(torch.finfo(x.dtype).tiny)


def _exponentials(x: Tensor, mask: Tensor, scale: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """exp(scale · x - highest), 0 where the mask does not hold, the sum of each row, and ``highest``: (), or (B,).

    On a CPU, in a large matrix, the largest exponent of the first row is tried as ``highest`` of all rows. Each row's
    own is computed only if that one is too far from the sum of some row.
    """
    if x.is_cpu and x.numel() > CACHED_ELEMENTS:
        factor = scale.item() if isinstance(scale, Tensor) else scale
        least, most = (factor * float(end) for end in torch.aminmax(x[0]))
        if abs(most - least) < MODERATE:
            highest = x.new_tensor(most)
            powers = fill_outside(torch.add(-highest, x, alpha=factor), mask, -math.inf)
            total, rows = x.new_empty(len(x)), rows_in_cache(x)
            for part, sums in zip(powers.split(rows), total.split(rows), strict=True):
                torch.sum(part.exp_(), dim=1, out=sums)
            least, most = (float(end) for end in torch.aminmax(total))
            if math.exp(-MODERATE) < least and most < math.exp(MODERATE):  # False also for NaN
                return powers, total, highest
    powers = fill_outside(x * scale, mask, -math.inf)
    highest = powers.amax(dim=1).clamp_min_(torch.finfo(x.dtype).min) if x.shape[1] else x.new_zeros(len(x))
    powers.sub_(highest.unsqueeze(1)).exp_()
    return powers, powers.sum(dim=1), highest


class _MaskedLogSumExp(torch.autograd.Function):
    """One exponential and no intermediate copies: twice as fast as the same with torch's own operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: Tensor | float) -> Tensor:
        powers, total, highest = _exponentials(x, mask, scale)
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
            weight = (upstream * scale / total.clamp_min(torch.finfo(x.dtype).tiny)).unsqueeze(1)
            along_x = saved_times(powers, weight)
        along_scale = sum_of_products(along_x, x) / scale if ctx.needs_input_grad[2] else None
        return along_x, None, along_scale


def diagonal_and_logsumexp(x: Tensor, excluded: Entries, scale: Tensor | float) -> tuple[Tensor, Tensor]:
    """The diagonal x_ii (N,) of a matrix (N, M), and log Σ_j exp(scale · x_ij) (N,) without the excluded entries, among
    which the diagonal is whenever it is read. For a scale at which exponentials of cosines stay in range."""
    out: tuple[Tensor, Tensor] = _DiagonalAndLogSumExp.apply(x, excluded, scale)  # type: ignore[no-untyped-call]
    return out


class _DiagonalAndLogSumExp(torch.autograd.Function):
    """One exponential, and one matrix for the gradients of both."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, excluded: Entries, scale: Tensor | float) -> tuple[Tensor, Tensor]:
        powers = fill_entries(x * scale, excluded, -math.inf).exp_()
        total = powers.sum(dim=1)
        ctx.set_materialize_grads(False)
        ctx.excluded, ctx.scale = excluded, None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(x, powers, total, *([scale] if isinstance(scale, Tensor) else []))
        return x.diagonal().clone(), total.log()

    @staticmethod
    def backward(
        ctx: Any, of_diagonal: Tensor | None, of_sum: Tensor | None
    ) -> tuple[Tensor | None, None, Tensor | None]:
        x, powers, total, *rest = ctx.saved_tensors
        scale = rest[0] if rest else ctx.scale
        if of_sum is None:
            along_x = torch.zeros_like(x)
        elif torch.is_grad_enabled():  # differentiated twice: the same in torch's own operations
            counts = ~fill_entries(torch.zeros_like(x, dtype=torch.bool), ctx.excluded, True)
            along_x = masked_softmax(x, counts, scale) * counts * (of_sum * scale).unsqueeze(1)
        else:
            along_x = saved_times(powers, (of_sum * scale / total.clamp_min(SMALLEST)).unsqueeze(1))
        along_scale = sum_of_products(along_x, x) / scale if ctx.needs_input_grad[2] else None
        if of_diagonal is not None and torch.is_grad_enabled():
            along_x = torch.diagonal_scatter(along_x, along_x.diagonal() + of_diagonal)
        elif of_diagonal is not None:
            along_x.diagonal().add_(of_diagonal)
        return along_x, None, along_scale


def saved_times(saved: Tensor, weight: Tensor) -> Tensor:
    """What a backward saved times a weight: in its place where the graph is freed."""
    if graph_is_freed():
        try:
            return saved.mul_(weight)
        except RuntimeError:  # a batch of upstream gradients (is_grads_batched) does not fit there
            pass
    return saved * weight


# ------------------------------------------------------------------------------------------------------------ extremes


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Largest value of each row, -inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,).

    For similarities it is that of the nearest vector, even where several are so near that their cosines are alike.
    """
    if not x.shape[1]:
        return x.new_full(x.shape[:1], -math.inf)
    known, vectors = filled_outside(x, mask, -math.inf), vectors_of(x)
    needs_column = x.requires_grad or plain_operations()
    column = argmax(known) if needs_column else None
    largest = known.amax(dim=1) if column is None else known.gather(1, column).squeeze(1)
    nearest = vectors.nearest(x.detach(), largest, mask) if isinstance(vectors, MatrixDistances) else None
    if nearest is not None and column is not None:
        column[nearest.lines] = nearest.columns
    if column is not None:
        largest = torch.where(mask.gather(1, column), x.gather(1, column), -math.inf).squeeze(1)
    return largest if nearest is None else with_vectors(largest, nearest)


def masked_argmax(x: Tensor, mask: Tensor) -> Tensor:
    """The column of the value of ``masked_max``: (B, M) -> (B, 1)."""
    column, vectors = argmax(known := filled_outside(x, mask, -math.inf)), vectors_of(x)
    if isinstance(vectors, MatrixDistances):
        nearest = vectors.nearest(x.detach(), known.gather(1, column).squeeze(1), mask)
        if nearest is not None:
            column[nearest.lines] = nearest.columns
    return column


def masked_min(x: Tensor, mask: Tensor) -> Tensor:
    """Smallest value of each row, inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    if not x.shape[1]:
        return x.new_full(x.shape[:1], math.inf)
    known = filled_outside(x, mask, math.inf)
    if not (x.requires_grad or plain_operations()):
        return known.amin(dim=1)
    column = argmax(known.neg_())
    return torch.where(mask.gather(1, column), x.gather(1, column), math.inf).squeeze(1)


# -------------------------------------------------------------------------------------------------- sums of a function


@dataclass(frozen=True)
class Curve:
    """A function of numbers and its derivative; the latter may overwrite its argument and return it."""

    value: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor], Tensor]


SOFTPLUS = Curve(lambda a: softplus(a, threshold=50), torch.sigmoid_)
LOGARITHM = Curve(torch.log, torch.reciprocal_)


def masked_sum_of(
    curve: Curve, x: Tensor, mask: Tensor, scale: Tensor | float = 1.0, shift: Tensor | float = 0.0
) -> Tensor:
    """Σ_j f(scale · x_ij + shift) over the columns that count, f a ``Curve``: (B, M) -> (B,).

    scale (not 0) and shift are numbers, or tensors of one number.

    >>> x = torch.tensor([[0.0, 1.0, 5.0]])
    >>> round(masked_sum_of(SOFTPLUS, x, torch.tensor([[True, True, False]])).item(), 5)
    2.00641
    """
    if plain_operations():
        return torch.where(mask, curve.value(x * scale + shift), 0).sum(dim=1)
    out: Tensor = _MaskedSumOf.apply(curve, x, mask, scale, shift)  # type: ignore[no-untyped-call]
    return out


def _affine(x: Tensor, scale: Tensor | float, shift: Tensor | float) -> Tensor:
    """scale · x + shift, in one pass where that is possible without waiting for a device."""
    if not x.is_cpu:
        return (x * scale).add_(shift)
    factor, start = (n.item() if isinstance(n, Tensor) else n for n in (scale, shift))
    return torch.add(x.new_tensor(start), x, alpha=factor)


class _MaskedSumOf(torch.autograd.Function):
    """Keeps two copies of x instead of one for each operation and each of their gradients."""

    @staticmethod
    def forward(
        ctx: Any, curve: Curve, x: Tensor, mask: Tensor, scale: Tensor | float, shift: Tensor | float
    ) -> Tensor:
        affine = _affine(x, scale, shift)
        ctx.curve = curve
        ctx.numbers = [None if isinstance(n, Tensor) else n for n in (scale, shift)]
        ctx.save_for_backward(x, mask, affine, *(n for n in (scale, shift) if isinstance(n, Tensor)))
        return fill_outside(curve.value(affine), mask, 0.0).sum(dim=1)

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
            grads = list(torch.autograd.grad(total, wanted, upstream, create_graph=True))
            return None, grads.pop(0) if needs[1] else None, None, *(grads.pop(0) if n else None for n in needs[3:])
        factor = scale.reshape(()) if isinstance(scale, Tensor) else scale
        derivative = fill_outside(ctx.curve.derivative(affine if graph_is_freed() else affine.clone()), mask, 0.0)
        along_x = saved_times(derivative, (upstream * factor).unsqueeze(1))
        of_scale = (sum_of_products(along_x, x) / factor).reshape(scale.shape) if needs[3] else None
        of_shift = (along_x.sum() / factor).reshape(shift.shape) if needs[4] else None
        return None, along_x, None, of_scale, of_shift
