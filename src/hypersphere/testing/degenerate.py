"""Input that breaks careless losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hypersphere.objectives import Objective
from hypersphere.testing.example import (
    call,
    dimension,
    in_type,
    parameters,
    require_gradient,
    some_labels,
    views,
)


def degenerate_views(dim: int = 4) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Named pairs of views that a correct objective maps to a finite value and a finite gradient."""
    z1, z2 = views(6, dim, dtype=torch.float32)
    yield "ordinary rows", z1, z2
    yield "two instances", z1[:2], z2[:2]
    yield "identical views", z1, z1.clone()
    yield "all rows identical", z1[:1].expand(6, dim).clone(), z1[:1].expand(6, dim).clone()
    yield "antipodal views", z1, -z1
    yield "duplicated instances", z1[[0, 0, 1, 1, 2, 2]], z2[[0, 0, 1, 1, 2, 2]]
    yield "a zero row", torch.cat([torch.zeros(1, dim), z1[1:]]), z2
    yield "all rows zero", torch.zeros(6, dim), torch.zeros(6, dim)
    yield "huge rows", z1 * 1e30, z2 * 1e30
    yield "tiny rows", z1 * 1e-12, z2 * 1e-12
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        yield str(dtype), z1.to(dtype), z2.to(dtype)
        yield f"duplicated instances, {dtype}", z1[[0, 0, 1, 1, 2, 2]].to(dtype), z2[[0, 0, 1, 1, 2, 2]].to(dtype)


def assert_survives(objective: Any, dim: int = 4) -> None:
    """Finite value and gradients on zero, huge, identical, antipodal and duplicated rows, N = 2, half precision.

    Objectives on raw features are exempt from huge rows. Modules that are not hypersphere's are given their weights in
    the type of the rows.

    >>> import hypersphere as hs
    >>> assert_survives(hs.create_objective("met"))
    """
    exempt = ("huge rows",) if getattr(objective, "raw_rows", False) else ()
    for name, z1, z2 in degenerate_views(dimension(objective, dim)):
        if name in exempt:
            continue
        z1, z2 = z1.clone().requires_grad_(), z2.clone().requires_grad_()
        tried = objective if isinstance(objective, Objective) else in_type(objective, z1.dtype)
        try:
            value = require_gradient(call(tried, z1, z2, some_labels(len(z1)), None))
        except (RuntimeError, ValueError) as error:
            raise AssertionError(f"on {name} it fails: {error}") from error
        if not value.isfinite().all():
            raise AssertionError(f"on {name} the value is {value.tolist()}")
        moving = [z1, z2, *parameters(tried)]
        for place, grad in enumerate(torch.autograd.grad(value.sum(), moving, allow_unused=True)):
            if grad is not None and not grad.isfinite().all():
                what = ("z1", "z2")[place] if place < 2 else "a parameter"
                raise AssertionError(f"on {name} the gradient in {what} is not finite")
