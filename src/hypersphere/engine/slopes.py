"""Gradients with respect to leaves some of which do not matter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def slopes_of(pairs: list[tuple[Tensor, Tensor]], leaves: list[Any], retain: bool) -> list[Tensor | None]:
    """∂(Σ weight · value)/∂leaf, None where no value depends on it."""
    moving = [leaf for leaf in leaves if leaf.requires_grad]
    if not pairs or not moving:
        return [None] * len(leaves)
    values, weights = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(values, moving, weights, allow_unused=True, retain_graph=retain))
    return [next(found) if leaf.requires_grad else None for leaf in leaves]


def itself(value: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What to differentiate if it is this number."""
    return [(value, torch.ones_like(value))] if value.requires_grad else []
