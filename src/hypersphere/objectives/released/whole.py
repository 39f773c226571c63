"""Objectives that keep the whole similarity matrices, as their authors' code does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from hypersphere.engine import Inputs, Statistics, evaluate_features
from hypersphere.geometry import unit, widened
from hypersphere.objectives.base import Objective


class WholeObjective(Objective):
    """One or two directions over whole matrices, in plain PyTorch: exact on several processes too, but not in blocks.

    It takes no further negatives, and ``mixup`` cannot wrap it.
    """

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum")
    takes: ClassVar[Any] = frozenset()
    nature: ClassVar[str] = "is its authors' code as it stands"

    def direction(self, x: Tensor, y: Tensor) -> Statistics:
        """Numbers (N,) of the anchors x from the unit rows of both views (N, D)."""
        raise TypeError(f"{type(self).__name__} must define direction")

    @property
    def both_views(self) -> bool:
        """Whether each view is the anchors once, and the two directions add."""
        return True

    def rows(self, z: Tensor) -> Tensor:
        return widened(z)

    def features(self, *views: Tensor) -> Statistics:
        """Scalars from both raw views (N, D)."""
        x, y = (unit(z) for z in views)
        directions = [self.direction(x, y), self.direction(y, x)] if self.both_views else [self.direction(x, y)]
        return {
            name: torch.stack([self.reduced(direction[name]) for direction in directions]).sum()
            for name in directions[0]
        }

    def reduced(self, value: Tensor) -> Tensor:
        return value.sum() if self.reduction == "sum" else value.mean()

    def map_pairwise(self, change: Callable[..., Any]) -> Any:
        raise ValueError(f"{self.name} is its authors' code as it stands: it takes no mixed negatives")

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        self.refuse_unused(inputs)
        return evaluate_features(self, inputs, terms)


def other_instances(rows: Tensor) -> Tensor:
    """True at the pairs of different instances: (N, D) -> (N, N)."""
    return ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)
