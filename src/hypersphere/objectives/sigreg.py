"""SIGReg: the features of each view should be Gaussian on random directions, by their characteristic functions."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.objectives.base import FeatureObjective
from hypersphere.objectives.characteristic import Grid, characteristic_distance
from hypersphere.objectives.prediction import PredictionObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import number
from hypersphere.objectives.slices import SlicedObjective


@register("sigreg")
class SIGReg(SlicedObjective, PredictionObjective, FeatureObjective):
    """LeJEPA: prediction, and rows of the law N(0, I) by the test of Epps and Pulley on random directions.

    L = (1-λ) mean (z-μ)² + λ mean over views and directions a of N ∫ |mean_n e^{it a·z_n} - e^{-t²/2}|² e^{-t²/2} dt,
    λ = ``weight``, μ_n the mean of the instance's global views (the first ``num_global``, None: all); the integral is
    the trapezoid rule on ``knots`` points of [0, t_max], doubled. Directions are drawn anew in each step of training.

    Source: Balestriero and LeCun 2025 (quadrature and prediction as in their code; their Eq. 9 adds up dimensions).
    Use it without negatives, teacher or large batches; memory and time are linear in the batch. It does not pull rows
    apart that have collapsed at the origin, where its gradient is 0; ``visreg`` does.
    Relations: with two views the prediction is a quarter of ``vicreg``'s invariance. Gaussian rows have a regulariser
    of 1.0525 on average for any N, rows at the origin 0.402 N. Algorithm 1 of the paper, which integrates over [-5, 5]
    with 17 points, is knots=9, t_max=5. ``sphere_jepa`` with test="sliced" is the same for unit rows.

    >>> z = torch.zeros(10, 3)
    >>> round(SIGReg(weight=1.0)(z, z).item(), 3)
    4.02
    """

    source = "Balestriero & LeCun 2025"
    knots: int = number(default=17, at_least=2, whole=True)
    t_max: float = number(default=3.0, above=0, tune=(1.0, 6.0))

    def features(self, *views: Tensor) -> Statistics:
        directions = self.columns(views[0])
        knots = Grid.knots(self.knots, self.t_max)
        grid = Grid.trapezoid(knots, law=(-knots.square() / 2).exp())
        distances = torch.stack([characteristic_distance(z, directions, grid) for z in views])
        prediction, regulariser = (1 - self.weight) * self.prediction(views), self.weight * distances.mean()
        return {"loss": prediction + regulariser, "prediction": prediction, "regulariser": regulariser}
