"""Angles drawn as Li et al. 2024 draw them, and an objective's components on them, over a grid of their means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import pi
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy.closed_forms import Components, closed_form

Measure = Callable[[Components], Tensor]  # components of (…, batches) anchors -> (…, batches)


def mean_dissipation(components: Components) -> Tensor:
    return components.dissipation


def hardest_share(components: Components) -> Tensor:
    """Share of the largest absolute weight: weights of Barlow Twins and VICReg may be negative."""
    sizes = components.weight.abs()
    return sizes.amax(dim=-1) / sizes.sum(dim=-1)


@dataclass(frozen=True)
class AngleGrid:
    """Li's set-up: θ_pos ~ N(μ_pos, .05²), θ_neg ~ N(μ_neg, .10²), independent; means on a grid, ends included."""

    positive_means: tuple[float, float] = (pi / 20, pi / 2)
    negative_means: tuple[float, float] = (pi / 20, pi)
    points: int = 100
    positive_spread: float = 0.05
    negative_spread: float = 0.10
    batches: int = 1000
    negatives: int = 127
    seed: int = 0

    def means(self) -> tuple[Tensor, Tensor]:
        return (
            torch.linspace(*self.positive_means, self.points, dtype=torch.float64),
            torch.linspace(*self.negative_means, self.points, dtype=torch.float64),
        )

    @property
    def angles(self) -> int:
        """How many angles the whole grid draws."""
        return self.points**2 * self.batches * (self.negatives + 1)


def simulate(
    name: str,
    grid: AngleGrid | None = None,
    measure: Measure = mean_dissipation,
    progress: Callable[[int, int], None] | None = None,
    **params: Any,
) -> Tensor:
    """Mean over batches of a measure of the objective's components, (points, points): rows μ_pos, columns μ_neg.

    Works for every objective with a closed form. An objective that couples the anchors of a batch takes its sums over
    all pairs from the draws at the same point of the grid. An objective with negatives of both views gets the same
    angles for both. Angles are drawn and evaluated piece by piece in float32; the same seed gives the same numbers.
    ``progress`` is called with the number of grid rows done and to do.

    >>> small = AngleGrid(points=3, batches=50, negatives=7)
    >>> simulate("dcl", small).tolist()[0]
    [1.0, 1.0, 1.0]
    """
    grid = grid or AngleGrid()
    means = torch.empty(grid.points, grid.points)
    for row, values in enumerate(simulate_rows(name, grid, measure, **params)):
        means[row] = values
        if progress:
            progress(row + 1, grid.points)
    return means


def simulate_rows(name: str, grid: AngleGrid, measure: Measure, **params: Any) -> Iterator[Tensor]:
    """One row of the grid after the other: (points,) for each μ_pos."""
    for values in simulate_together([(name, params)], grid, [measure]):
        yield values[0, 0]


def simulate_together(
    forms: Sequence[tuple[str, Mapping[str, Any]]], grid: AngleGrid, measures: Sequence[Measure]
) -> Iterator[Tensor]:
    """The same for several objectives and measures. They share angles that are drawn once: (forms, measures, points)
    for each μ_pos."""
    called = [(closed_form(name), params) for name, params in forms]
    generator = torch.Generator().manual_seed(grid.seed)
    positive_means, negative_means = (means.float() for means in grid.means())
    at_once = max(1, 2**21 // (grid.batches * (grid.negatives + 1)))  # grid cells whose angles fit the cache
    for mean in positive_means:
        row = []
        for columns in negative_means.split(at_once):
            shape = (len(columns), grid.batches)
            positive = torch.randn(shape, generator=generator).mul_(grid.positive_spread).add_(mean)
            negative = torch.randn((*shape, grid.negatives), generator=generator).mul_(grid.negative_spread)
            negative.add_(columns[:, None, None])
            parts = [form(positive, negative, **params) for form, params in called]
            row.append(
                torch.stack([torch.stack([measure(part).mean(dim=1) for measure in measures]) for part in parts])
            )
        yield torch.cat(row, dim=2)
