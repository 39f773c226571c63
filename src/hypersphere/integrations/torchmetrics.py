"""Alignment, uniformity, effective rank and Wasserstein uniformity as torchmetrics metrics.

Every metric takes raw rows (N, D), normalises them, and equals the function of the same name in
``hypersphere.diagnostics`` on all rows of all batches and all processes, whose shares may differ. All are updated by
``metric.update(z1, z2)``, so that they fit into one ``MetricCollection``. All but ``Alignment`` take one view too; of
two views they are the mean, as in published tables. A number without enough rows is NaN.

| metric | state | better |
|---|---|---|
| ``Alignment`` | two numbers | lower |
| ``EffectiveRank`` | D² numbers for each view, for any number of rows | higher |
| ``Uniformity``, ``WassersteinUniformity`` | all rows, in float32: no pair may be left out | lower |

Sums are float64, which Apple's MPS lacks: keep the metrics on the CPU there.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from hypersphere.diagnostics import measures
from hypersphere.geometry import unit
from hypersphere.integrations import refuse_old
from hypersphere.integrations.call_forms import require_tensor

refuse_old("torchmetrics", "torchmetrics")

__all__ = ["Alignment", "EffectiveRank", "Uniformity", "WassersteinUniformity"]


class _Measure(Metric):
    is_differentiable = False
    full_state_update = False

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Figure and axes with one value, by default of ``compute``, or with several in the order of steps."""
        return self._plot(val, ax)


class Alignment(_Measure):
    """mean_i ‖h_i - h'_i‖^α of two views' unit rows, from 0 (equal) to 2^α (Wang and Isola 2020).

    >>> metric = Alignment()
    >>> metric.update(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([[3.0, 0.0]]))
    >>> metric.compute()
    tensor(1.)
    """

    higher_is_better = False
    plot_lower_bound = 0.0
    total: Tensor
    count: Tensor

    def __init__(self, alpha: float = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, z1: Tensor, z2: Tensor | None = None) -> None:
        """Adds positive pairs: row i of ``z2`` is the positive of row i of ``z1``."""
        if z2 is None:
            raise ValueError("Alignment compares positive pairs: update(z1, z2) takes both views")
        if len(z1) or len(z2):
            self.total = self.total + len(z1) * measures.alignment(z1.detach(), z2.detach(), self.alpha)
            self.count = self.count + len(z1)

    def compute(self) -> Tensor:
        return (self.total / self.count).to(self.dtype)


class EffectiveRank(_Measure):
    """RankMe: the exponential of the entropy of σ_k / Σσ, from 1 to min(N, D) (Roy and Vetterli 2007, Garrido 2023).

    σ are the singular values of the unit rows, or with ``centre`` of their deviations from the mean. They come from the
    sum of the rows' outer products (D, D) in float64, whatever the number of rows.

    >>> metric = EffectiveRank(dim=5)
    >>> metric.update(torch.eye(5)[:2])
    >>> metric.update(torch.eye(5)[2:])
    >>> metric.compute()
    tensor(5.)
    """

    higher_is_better = True
    plot_lower_bound = 1.0
    moment: Tensor
    total: Tensor
    count: Tensor

    def __init__(self, dim: int, centre: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if dim < 1:
            raise ValueError(f"dim is the number of dimensions of a row, at least 1, not {dim}")
        self.dim = dim
        self.centre = centre
        self.add_state("moment", torch.zeros(2, dim, dim, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("total", torch.zeros(2, dim, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, z1: Tensor, z2: Tensor | None = None) -> None:
        """Adds rows of one view, or of two."""
        for view, rows in enumerate(_unit_views(z1, z2)):
            if rows.shape[1] != self.dim:
                raise ValueError(f"rows have {rows.shape[1]} dimensions, but EffectiveRank has dim={self.dim}")
            self.moment[view] += measures.second_moment(rows)
            self.total[view] += rows.sum(dim=0, dtype=torch.float64)
            self.count[view] += len(rows)

    def compute(self) -> Tensor:
        ranks = [self._rank(view) for view in range(2) if self.count[view] > 0]
        return _mean(ranks, self)

    def _rank(self, view: int) -> float:
        moment, count = self.moment[view].double(), int(self.count[view])
        if self.centre:
            mean = self.total[view].double() / count
            moment = moment - count * torch.outer(mean, mean)
        eigenvalues = measures.without_noise(torch.linalg.eigvalsh(moment), count, scale=count)
        return measures.entropy_rank(eigenvalues.sqrt())


class _Pairs(_Measure):
    """A measure of all pairs of one view: all rows are kept, and pairs are taken in blocks."""

    higher_is_better = False
    first: list[Tensor] | Tensor
    second: list[Tensor] | Tensor
    dim: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Flat rows: the state of a process without rows is gathered as a flat tensor, and all must be of one kind.
        self.add_state("first", [], dist_reduce_fx="cat")
        self.add_state("second", [], dist_reduce_fx="cat")
        self.add_state("dim", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")

    def update(self, z1: Tensor, z2: Tensor | None = None) -> None:
        """Adds rows of one view, or of two."""
        for kept, rows in zip((self.first, self.second), _unit_views(z1, z2), strict=False):
            if int(self.dim) not in (0, rows.shape[1]):
                raise ValueError(f"rows have {rows.shape[1]} dimensions, but those before them {int(self.dim)}")
            self.dim = torch.full_like(self.dim, rows.shape[1])
            assert isinstance(kept, list)
            kept.append(rows.to(self.dtype).flatten())

    def compute(self) -> Tensor:
        views = [kept if isinstance(kept, Tensor) else torch.cat([torch.zeros(0, device=self.device), *kept])
                 for kept in (self.first, self.second)]  # fmt: skip
        rows = [view.view(-1, int(self.dim)) for view in views if len(view) > self.dim]
        return _mean([self._measure(each) for each in rows], self)

    def _measure(self, rows: Tensor) -> float:
        raise NotImplementedError


class Uniformity(_Pairs):
    """log mean_{i<j} e^{-t‖h_i - h_j‖²} over distinct pairs of unit rows, from -4t to 0 (Wang and Isola 2020).

    >>> metric = Uniformity()
    >>> metric.update(torch.eye(4)[:3])
    >>> metric.update(torch.eye(4)[3:])
    >>> metric.compute()
    tensor(-4.)
    """

    plot_upper_bound = 0.0

    def __init__(self, t: float = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.t = t

    def _measure(self, rows: Tensor) -> float:
        return measures.uniformity(rows, self.t)


class WassersteinUniformity(_Pairs):
    """1-Wasserstein distance between the cosines of distinct pairs and those of uniform points (Koromilas et al. 2024).

    >>> metric = WassersteinUniformity()
    >>> metric.update(torch.ones(4, 3))
    >>> metric.compute()  # one point: uniform cosines in three dimensions have a mean distance of 1 from it
    tensor(1.)
    """

    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def _measure(self, rows: Tensor) -> float:
        return measures.wasserstein_uniformity(rows)


def _unit_views(z1: Tensor, z2: Tensor | None) -> list[Tensor]:
    views = [z1] if z2 is None else [z1, z2]
    for name, z in zip(("z1", "z2"), views, strict=False):
        require_tensor(z, name, "rows (N, D)")
        if z.ndim != 2:
            raise ValueError(f"{name} must be rows (N, D), not of shape {tuple(z.shape)}")
    return [unit(z.detach()) for z in views]


def _mean(values: list[float], metric: Metric) -> Tensor:
    value = sum(values) / len(values) if values else math.nan
    return torch.tensor(value, dtype=metric.dtype, device=metric.device)
