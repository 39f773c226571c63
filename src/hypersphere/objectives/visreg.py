"""VISReg: location, scale and shape of the features of each view should be those of the standard Gaussian."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.geometry.distances import detached
from hypersphere.objectives.base import FeatureObjective
from hypersphere.objectives.prediction import PredictionObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import number
from hypersphere.objectives.slices import SlicedObjective
from hypersphere.torch_internals import plain_operations

CHUNK = 2**18  # projections that are sorted together


@register("visreg")
class VISReg(SlicedObjective, PredictionObjective, FeatureObjective):
    """Prediction, and mean 0, deviation 1 and Gaussian quantiles of the features.

    L = (1-λ) mean (z-μ̄)² + λ (center · mean_k μ_k² + scale · mean_k (1-σ_k)² + shape · S), λ = ``weight``, μ̄_n the
    mean of the instance's global views (the first ``num_global``, None: all); μ_k, σ_k mean and biased deviation of
    feature k in one view, S the mean over rows and directions a of (y_(i) - q_i)²: y_(i) the i-th smallest of
    a·(z-μ)/max(σ, eps), σ without gradient, q_i = Φ⁻¹(i/(N+1)). Means over views. Directions are drawn anew in each
    step of training.

    Source: Wu, Balestriero and Levine 2026 (their code for eps).
    Use it where ``sigreg`` collapses: the gradient of the deviation keeps its size near collapse. It takes a weight of
    0.6 for small data sets. Features must not begin small: shape shrinks rows by a force that does not depend on
    σ, scale spreads them by one that falls with σ, and shape wins below a σ of about 0.04 (128 Gaussian rows).
    Relations: scale is the variance of ``vicreg`` with γ = 1, squared and two-sided, with the biased deviation; shape
    takes the place of its covariance. ``sigreg`` tests the same law by characteristic functions.

    >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> VISReg(shape=0.0, num_slices=8)(z, z).item()
    0.0
    """

    source = "Wu, Balestriero & Levine 2026"
    weight: float = number(default=0.9, at_least=0, at_most=1, tune=(0.3, 0.98))
    scale: float = number(default=1.0, at_least=0)
    shape: float = number(default=1.0, at_least=0)
    center: float = number(default=1.0, at_least=0)
    eps: float = number(default=1e-6, above=0)
    num_slices: int = number(default=4096, at_least=1, whole=True)

    def features(self, *views: Tensor) -> Statistics:
        directions = self.columns(views[0])
        parts = [self._center_scale_shape(z, directions) for z in views]
        center, scale, shape = (self.weight * torch.stack(each).mean() for each in zip(*parts, strict=True))
        prediction = (1 - self.weight) * self.prediction(views)
        loss = prediction + center + scale + shape
        return {"loss": loss, "prediction": prediction, "scale": scale, "shape": shape, "center": center}

    def _center_scale_shape(self, z: Tensor, directions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = z.mean(dim=0)
        centred = z - mean
        variance = centred.square().mean(dim=0)
        varies = variance > 0  # the deviation of a constant feature receives no gradient
        deviation = torch.where(varies, variance, 1).sqrt() * varies
        standard = centred / detached(deviation).clamp_min(self.eps)
        center, scale = mean.square().mean(), (1 - deviation).square().mean()
        shape = self.shape * quantile_distance(standard, directions) if self.shape else 0 * center
        return self.center * center, self.scale * scale, shape


def quantile_distance(rows: Tensor, directions: Tensor) -> Tensor:
    """Mean over the columns a (D, K) and i of (y_(i) - q_i)², y_(1) ≤ … ≤ y_(N) the sorted a·rows_n, q_i the Gaussian
    quantile of i/(N+1). The sort is done once for value and gradient, some directions at a time."""
    places = torch.arange(1, len(rows) + 1, dtype=torch.float64, device=rows.device)
    quantiles = torch.special.ndtri(places / (len(rows) + 1)).to(rows.dtype)
    if plain_operations():
        return _plain(rows, directions, quantiles)
    distance: Tensor = _QuantileDistance.apply(rows, directions, quantiles)  # type: ignore[no-untyped-call]
    return distance


def _plain(rows: Tensor, directions: Tensor, quantiles: Tensor) -> Tensor:
    """The same in torch's own operations, which can be differentiated again; holds N·K numbers."""
    return ((directions.T @ rows.T).sort(dim=1).values - quantiles).square().mean()


class _QuantileDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, directions: Tensor, quantiles: Tensor) -> Tensor:
        chunk = max(1, CHUNK // len(rows))
        total = rows.new_zeros((), dtype=torch.float64)
        grad = torch.zeros_like(rows) if ctx.needs_input_grad[0] else None
        for some in directions.T.split(chunk):  # (B, D)
            projections = some @ rows.T  # (B, N)
            ordered, places = projections.sort(dim=1)
            gaps = ordered.sub_(quantiles)
            total += gaps.square().sum()
            if grad is not None:
                grad.addmm_(projections.scatter_(1, places, gaps).T, some)
        count = len(rows) * directions.shape[1]
        ctx.save_for_backward(rows, directions, quantiles, None if grad is None else grad.mul_(2 / count))
        return (total / count).to(rows.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        rows, directions, quantiles, grad = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated
            (grad,) = torch.autograd.grad(_plain(rows, directions, quantiles), rows, create_graph=True)
        return upstream * grad, None, None
