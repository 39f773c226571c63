"""A small batch to try an objective on, and the one way to call whatever is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.objectives import FeatureObjective, Objective


def views(size: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Two correlated views."""
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    z2 = z1 + 0.6 * torch.randn(size, dim, generator=generator, dtype=torch.float64)
    return z1.to(dtype), z2.to(dtype)


def some_labels(size: int) -> Tensor:
    """Two classes, and every fifth row unlabelled."""
    places = torch.arange(size)
    return torch.where(places % 5 == 4, -1, places % 2)


def call(objective: Callable[..., Any], z1: Tensor, z2: Tensor, labels: Tensor, negatives: Tensor | None) -> Tensor:
    """The loss: labels and negatives go to our own objectives, other callables get the two views."""
    found = objective(z1, z2, labels, negatives=negatives) if isinstance(objective, Objective) else objective(z1, z2)
    if not isinstance(found, Tensor):
        raise AssertionError(f"the objective returned {type(found).__name__} instead of a tensor")
    return found


def parameters(objective: Any) -> list[nn.Parameter]:
    return list(objective.parameters()) if isinstance(objective, nn.Module) else []


def takes_negatives(objective: Any) -> bool:
    """Whether extra negatives mean anything to it."""
    bases = [objective, getattr(objective, "base", None)]
    return isinstance(objective, Objective) and not any(isinstance(each, FeatureObjective) for each in bases)


def dimension(objective: Any, otherwise: int) -> int:
    """The dimension an objective insists on, if it does."""
    return int(getattr(objective, "dim", otherwise))
