"""Two views that take turns on one matrix: the second one's anchors are the columns of the first one's similarities.

Where all an anchor needs to know of its negatives is log Σ exp(scale · s), a first sweep adds this up for the columns
and a second one moves rows and columns together: four matrix products instead of the six of two turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.contract import Statistics
from hypersphere.engine.slopes import slopes_of

OfTotal = Callable[[Tensor, Tensor], Statistics]


@dataclass
class ColumnTotals:
    """log Σ_i exp(scale · s_ij) of the columns j, i ≠ j, added up strip by strip."""

    scale: Tensor | float
    highest: Tensor  # (N,) of scale · s_ij so far
    sums: Tensor  # (N,) of exp(scale · s_ij - highest)

    @classmethod
    def none_yet(cls, scale: Tensor | float, like: Tensor) -> ColumnTotals:
        lowest = torch.finfo(like.dtype).min
        return cls(scale, like.new_full((len(like),), lowest), like.new_zeros(len(like)))

    def add(self, similarities: Tensor, rows: slice) -> None:
        powers = similarities * self.scale
        powers[:, rows].fill_diagonal_(-torch.inf)
        highest = torch.maximum(self.highest, powers.amax(dim=0)) if len(powers) else self.highest
        self.sums.mul_((self.highest - highest).exp_()).add_(powers.sub_(highest).exp_().sum(dim=0))
        self.highest = highest

    def logarithm(self) -> Tensor:
        return self.sums.log() + self.highest


@dataclass
class Mirror:
    """What columns as anchors add to the gradient of the similarities, once their totals are known."""

    scale: Tensor | float
    totals: Tensor  # (N,)
    weights: Tensor  # (N,) ∂L/∂total
    along_scale: list[Tensor] = field(default_factory=list)

    def slopes(self, similarities: Tensor, rows: slice) -> Tensor:
        """∂L/∂s of some rows, as far as it comes from the columns: (B, N)."""
        found = (similarities * self.scale).sub_(self.totals).exp_()
        found[:, rows].fill_diagonal_(0)
        found.mul_(self.weights)
        if isinstance(self.scale, Tensor) and self.scale.requires_grad:
            self.along_scale.append((found * similarities).sum())
        return found.mul_(self.scale)

    def slopes_of_parameters(self, parameters: list[Any]) -> list[Tensor | None]:
        """What the totals' own dependence on the scale adds to the gradients of the parameters."""
        if not self.along_scale or not isinstance(self.scale, Tensor):
            return [None] * len(parameters)
        upstream = torch.stack(self.along_scale).sum().reshape(self.scale.shape)
        return slopes_of([(self.scale, upstream)], parameters, retain=True)
