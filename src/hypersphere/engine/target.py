"""What a sweep differentiates, and the gradients it has gathered so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hypersphere.engine.contract import Statistics

# How much the anchors count in a total: all the same, each its own, or as their statistic says.
Weight = float | Tensor | Callable[[Tensor], Tensor]
Weights = dict[str, Weight]


@dataclass
class Target:
    """One number to differentiate: how much each statistic counts in it, and its gradients so far."""

    weights: list[Weights]  # by turn
    like: list[Tensor | None]  # the rows of the whole batch; None: no gradient wanted
    positives: list[Tensor]  # by turn: gradients of the positive similarities of this process's anchors
    parameters: list[Tensor]
    _rows: list[Tensor | None] = field(init=False)  # gradients; None: nothing so far
    _written: list[int] = field(init=False)  # so many of their first rows hold something, the others anything

    def __post_init__(self) -> None:
        self._rows, self._written = [None] * len(self.like), [0] * len(self.like)

    def found(self, index: int) -> Tensor | None:
        """The gradient of z1, z2 or the negatives so far; None: nothing at all."""
        rows = self._rows[index]
        if rows is not None and self._written[index] < len(rows):
            rows[self._written[index] :] = 0
            self._written[index] = len(rows)
        return rows

    def gradient(self, index: int) -> Tensor | None:
        """The same, to be added to: 0 if there is nothing at all; None: not wanted."""
        like = self.like[index]
        if self._rows[index] is None and like is not None:
            self._rows[index] = torch.empty_like(like)
        return self.found(index)

    def take(self, index: int) -> Tensor | None:
        """Hands the gradient over: it is not kept here any longer, nor wanted."""
        rows = self.gradient(index)
        self.like[index] = self._rows[index] = None
        return rows

    def put(self, index: int, rows: Tensor) -> None:
        """Takes this for the gradient, whatever it was."""
        self._rows[index], self._written[index] = rows, len(rows)

    def add(self, index: int, block: slice, slope: Tensor) -> None:
        """Adds to the gradient of a block of rows, if it is wanted."""
        rows, first = self._place(index, block)
        if rows is not None:
            rows.copy_(slope) if first else rows.add_(slope)

    def add_product(self, index: int, block: slice, left: Tensor, right: Tensor, weight: Tensor | None = None) -> None:
        """Adds a matrix product, of whose rows each counts so much (B, 1), to the gradient of a block of rows, if it is
        wanted."""
        rows, first = self._place(index, block)
        if rows is None:
            return
        if weight is None:
            rows.addmm_(left, right, beta=0 if first else 1)
        elif first:
            rows.addmm_(left, right, beta=0).mul_(weight)
        else:
            rows += torch.mm(left, right).mul_(weight)

    def _place(self, index: int, block: slice) -> tuple[Tensor | None, bool]:
        """The gradient of a block of rows if it is wanted, and whether what comes now is the first there: then it takes
        the place, and nothing is filled with zeros to be added to."""
        like = self.like[index]
        if like is None:
            return None, False
        rows = self._rows[index]
        if rows is None:
            rows = self._rows[index] = torch.empty_like(like)
        first = block.start == self._written[index]
        if first:
            self._written[index] = block.stop
        else:
            self.found(index)
        return rows[block], first

    def weighed(self, statistics: Statistics, turn: int, strip: slice) -> list[tuple[Tensor, Tensor]]:
        """The statistics of a strip that move, and how much each of its anchors counts in them."""
        return [
            (statistics[name], _weight_of(statistics[name], weight, strip))
            for name, weight in self.weights[turn].items()
            if statistics[name].requires_grad
        ]

    def add_to_parameters(self, slopes: list[Tensor | None]) -> None:
        for gradient, slope in zip(self.parameters, slopes, strict=True):
            if slope is not None:
                gradient += slope


def _weight_of(statistic: Tensor, weight: Weight, strip: slice) -> Tensor:
    if isinstance(weight, Tensor):
        return weight[strip]
    return weight(statistic.detach()) if callable(weight) else torch.full_like(statistic, weight)
