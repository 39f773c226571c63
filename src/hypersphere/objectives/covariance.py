"""Objectives of feature covariance: Barlow Twins and VICReg. No pairs: cost N·D², memory D²."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.geometry import unit
from hypersphere.objectives.base import FeatureObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


def _off_diagonal_squares(matrix: Tensor) -> Tensor:
    """Σ_{k≠l} M_kl², without subtracting the diagonal from the whole."""
    return (matrix - torch.diag(matrix.diagonal())).pow(2).sum()


@register("barlow")
class Barlow(FeatureObjective):
    """Barlow Twins: the cross-correlation of the views should be the identity.

    L = Σ_k (C_kk-1)² + ν Σ_{k≠l} C_kl², C = (1/N) Σ_i z_i z'_iᵀ, ν = ``weight``; normalization "batch": each feature
    has mean 0 and variance 1 over the batch (biased, eps 1e-5); "unit": rows of length 1 (then L ≥ (D-1)²/D).

    Source: Zbontar et al. 2021 (batch); Li et al. 2024, section 4 (unit, with weight 30).
    Use it with wide projections and batches of a few hundred; it has no negatives and no temperature.
    Relations: ``mbarlow`` at its original stage has the gradient of the unit form. The biased variance is that of the
    authors' code, lightly and solo-learn (which multiplies the loss by .025); stable-pretraining and the pseudo-code of
    the paper divide by the unbiased deviation, so that C_kk is at most (N-1)/N.

    >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> Barlow()(z, z).item() < 1e-8
    True
    """

    source = "Zbontar et al. 2021; Li et al. 2024"
    weight: float = number(default=0.0051, at_least=0, tune=(5e-4, 5e-2))
    normalization: str = choice("batch", "unit", default="batch")

    def features(self, *views: Tensor) -> Statistics:
        z1, z2 = views
        one, two = (unit(z) if self.normalization == "unit" else _standardised(z) for z in (z1, z2))
        correlation = one.T @ two / len(z1)
        alignment = (correlation.diagonal() - 1).pow(2).sum()
        redundancy = self.weight * _off_diagonal_squares(correlation)
        return {"loss": alignment + redundancy, "alignment": alignment, "redundancy": redundancy}


def _standardised(z: Tensor) -> Tensor:
    centred = z - z.mean(dim=0)
    return centred * (centred.pow(2).mean(dim=0) + 1e-5).rsqrt()


@register("vicreg")
class VICReg(FeatureObjective):
    """Variance, invariance and covariance of the features.

    L = inv · mean (z-z')² + var · (v(Z)+v(Z'))/2 + cov · (c(Z)+c(Z')), v(Z) = mean_k max(0, γ - sqrt(Var_k + ε)),
    c(Z) = (1/D) Σ_{k≠l} Cov_kl², centred, divided by N-1. normalization "none": raw features; "unit": unit rows
    (then use gamma = 1/sqrt(D): a unit row cannot have variance 1 in every feature).

    Source: Bardes et al. 2022, as in their code (half on the variance, none on the covariance).
    Use it where Barlow Twins is too sensitive to the batch; needs no negatives.
    Relations: ``mvicreg`` modifies its gradient; Li et al. 2024 exchange the letters v and c.

    >>> z = torch.tensor([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, -2.0]])
    >>> VICReg()(z, z).item()
    0.0
    """

    source = "Bardes et al. 2022"
    invariance: float = number(default=25.0, at_least=0, tune=(5.0, 50.0))
    variance: float = number(default=25.0, at_least=0)
    covariance: float = number(default=1.0, at_least=0, tune=(0.1, 10.0))
    gamma: float = number(default=1.0, above=0)
    eps: float = number(default=1e-4, above=0)
    normalization: str = choice("none", "unit", default="none")

    def features(self, *views: Tensor) -> Statistics:
        z1, z2 = views
        if self.normalization == "unit":
            z1, z2 = unit(z1), unit(z2)
        spreads, mixtures = zip(*(self._spread_and_mixture(z) for z in (z1, z2)), strict=True)
        invariance = self.invariance * (z1 - z2).pow(2).mean()
        variance = self.variance * (spreads[0] + spreads[1]) / 2
        covariance = self.covariance * (mixtures[0] + mixtures[1])
        return {
            "loss": invariance + variance + covariance,
            "invariance": invariance,
            "variance": variance,
            "covariance": covariance,
        }

    def _spread_and_mixture(self, z: Tensor) -> tuple[Tensor, Tensor]:
        centred = z - z.mean(dim=0)
        covariance = centred.T @ centred / (len(z) - 1)
        spread = torch.relu(self.gamma - (covariance.diagonal() + self.eps).sqrt()).mean()
        return spread, _off_diagonal_squares(covariance) / z.shape[1]
