"""Sums of a function of the similarities of a block, in which some columns do not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine.listed import Scaled, current_promise, may_list, may_reuse, remember_promise
from hypersphere.engine.mask import fill
from hypersphere.engine.masked import sum_of_products
from hypersphere.geometry.modes import plain_operations


@dataclass(frozen=True)
class Curve:
    """A function of numbers and its derivative; the latter may overwrite its argument and return it."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


SOFTPLUS = Curve(lambda a: softplus(a, threshold=50), torch.sigmoid_)
LOGARITHM = Curve(torch.log, torch.reciprocal_)


def masked_sum_of(
    curve: Curve, x: Tensor, mask: Tensor, scale: Tensor | float = 1.0, shift: Tensor | float = 0.0
) -> Tensor:
    """Σ_j f(scale · x_ij + shift) over the columns that count, f a ``Curve``: (B, M) -> (B,).

    scale, not 0, and shift are numbers or tensors of one.

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
    promise = current_promise()
    return torch.add(x.new_tensor(start), x, alpha=factor, out=None if promise is None else promise.empty_like(x))


class _MaskedSumOf(torch.autograd.Function):
    """Two copies of x instead of one for each operation and each of their gradients."""

    @staticmethod
    def forward(
        ctx: Any, curve: Curve, x: Tensor, mask: Tensor, scale: Tensor | float, shift: Tensor | float
    ) -> Tensor:
        affine = _affine(x, scale, shift)
        remember_promise(ctx, x)
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
        factor = scale.reshape(()) if isinstance(scale, Tensor) else scale
        slope = fill(ctx.curve.slope(affine if may_reuse(ctx) else affine.clone()), mask, 0.0)
        listed = may_list(ctx)
        if listed is not None and not (needs[3] or needs[4]):
            listed.scaled.append(Scaled(slope, upstream * factor))
            return None, None, None, None, None
        along_x = slope.mul_((upstream * factor).unsqueeze(1))
        of_scale = (sum_of_products(along_x, x) / factor).reshape(scale.shape) if needs[3] else None
        of_shift = (along_x.sum() / factor).reshape(shift.shape) if needs[4] else None
        return None, along_x, None, of_scale, of_shift
