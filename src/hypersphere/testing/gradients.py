"""Gradients against central differences, and the streamed form against the dense one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.evaluate import dense, streaming
from hypersphere.testing.example import (
    call,
    dimension,
    in_type,
    is_foreign,
    named,
    parameters,
    require_callable,
    require_gradient,
    require_one_number,
    some_labels,
    takes_negatives,
    views,
)


def assert_gradient_exact(objective: Any, size: int = 6, dim: int = 4, tolerance: float = 1e-6) -> None:
    """The gradient in both views and in the objective's parameters equals central differences (float64).

    Holds only where nothing is detached: a stop-gradient is invisible to differences of the value.

    >>> import hypersphere as hs
    >>> assert_gradient_exact(hs.create_objective("infonce", learnable=True))
    """
    objective = in_type(objective, torch.float64)
    z1, z2 = (z.requires_grad_() for z in views(size, dimension(objective, dim)))
    labels = some_labels(size)
    inputs: list[Tensor] = [z1, z2, *parameters(objective)]
    value = require_one_number(require_gradient(call(objective, z1, z2, labels, None)))
    grads = torch.autograd.grad(value, inputs, allow_unused=True)
    names = ["z1", "z2"] + [f"parameter {i}" for i in range(len(inputs) - 2)]
    for name, tensor, gradient in zip(names, inputs, grads, strict=True):
        expected = torch.zeros_like(tensor)
        for place in range(tensor.numel()):
            sides = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    tensor.view(-1)[place] += step
                    sides.append(call(objective, z1, z2, labels, None).item())
                    tensor.view(-1)[place] -= step
            expected.view(-1)[place] = (sides[0] - sides[1]) / 2e-5
        given = torch.zeros_like(tensor) if gradient is None else gradient
        error = (given - expected).abs().max().item()
        scale = 1 + expected.abs().max().item()
        if not error <= tolerance * scale:
            raise AssertionError(f"gradient in {name} differs from central differences by {error:.2e}")


def assert_streams_exactly(
    objective: Any,
    size: int = 11,
    dim: int = 6,
    rows: Iterable[int] = (1, 2, 3, 5, 11, 64),
    tolerance: float = 1e-11,
) -> None:
    """Value, gradients and parameters' gradients are the same for every block size as in the dense form (float64).

    A function or a module that is not hypersphere's has no blocks, and is refused.

    >>> import hypersphere as hs
    >>> assert_streams_exactly(hs.create_objective("siglip"))
    """
    require_callable(objective)
    if is_foreign(objective):
        raise ValueError(
            f"{named(objective)} is not one of hypersphere's objectives: it is called on whole views, so there are no "
            "blocks to compare; derive it from hs.PairwiseObjective to have it streamed"
        )
    objective = in_type(objective, torch.float64)
    z1, z2 = (z.requires_grad_() for z in views(size, dimension(objective, dim)))
    extra = views(4, dimension(objective, dim), seed=1)[0].requires_grad_()
    labels = some_labels(size)
    for negatives in (None, extra) if takes_negatives(objective) else (None,):
        inputs = [z1, z2, *([extra] if negatives is not None else []), *parameters(objective)]
        with dense():
            expected = _value_and_gradients(call(objective, z1, z2, labels, negatives), inputs)
        for block in rows:
            with streaming(block):
                streamed = _value_and_gradients(call(objective, z1, z2, labels, negatives), inputs)
            for name, a, b in zip(["value", "z1", "z2", "further"], streamed, expected, strict=False):
                error = (a - b).abs().max().item()
                if not error <= tolerance * (1 + b.abs().max().item()):
                    raise AssertionError(f"in blocks of {block} rows {name} differs from the dense form by {error:.2e}")


def _value_and_gradients(value: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    total = value.sum()
    grads = torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else [None] * len(inputs)
    first = [torch.zeros_like(i) if s is None else s for i, s in zip(inputs[:2], grads[:2], strict=True)]
    rest = [(torch.zeros_like(i) if s is None else s).flatten() for i, s in zip(inputs[2:], grads[2:], strict=True)]
    return [value.detach(), *first, torch.cat(rest) if rest else torch.zeros(1)]
