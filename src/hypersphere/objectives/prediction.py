"""The prediction term of joint-embedding objectives: each view of an instance should be the centre of its views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from hypersphere.objectives.base import Objective
from hypersphere.objectives.settings import Number, anything, number


class PredictionObjective(Objective):
    """(1-weight) · prediction + weight · regulariser, of two views or more.

    num_global: the centre is that of the first so many views; None: of all.
    """

    takes: ClassVar[frozenset[str]] = frozenset({"views"})
    weight: float = number(default=0.05, at_least=0, at_most=1, tune=(0.01, 0.5))
    num_global: Any = anything(default=None)

    def check(self) -> None:
        super().check()
        if self.num_global is not None:
            self.num_global = Number(None, at_least=1, whole=True).clean(self.num_global, f"{self.name}'s num_global")

    def prediction(self, views: Sequence[Tensor]) -> Tensor:
        """Mean over views, rows and dimensions of (z - μ)², μ_n the centre of the global views of instance n."""
        count = len(views) if self.num_global is None else self.num_global
        if count > len(views):
            raise ValueError(f"{self.name} has num_global={count}, but there are {len(views)} views")
        return distance_to_centre(views, count)


def distance_to_centre(views: Sequence[Tensor], count: int) -> Tensor:
    """Mean over views, rows and dimensions of (z - μ)², μ the mean of the first ``count`` views."""
    if len(views) == count == 2:  # either view is half the difference away from the centre
        return (views[0] - views[1]).square().mean() / 4
    centre = sum(views[1:count], views[0]) / count
    distances = [(z - centre).square().mean() for z in views]
    return sum(distances[1:], distances[0]) / len(views)
