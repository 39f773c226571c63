"""Alignment and uniformity, weighed against each other."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.geometry import squared_chord
from hypersphere.objectives.logsumexp import LogSumObjective, energy_of_all
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


@register("align_uniform")
class AlignUniform(LogSumObjective):
    """Mean distance of positives, and logarithm of the mean Gaussian potential of all other pairs.

    L = (1-λ) mean_i ‖h_i-h'_i‖^α + λ log mean_{pairs} e^{-t‖·‖²}, λ = ``weight``.
    pairs "same": (h_i, h_j) in each view, the two averaged (Wang and Isola); "cross": (h_i, h'_j), i≠j (Nie).

    Source: Wang & Isola 2020; Nie et al. 2023, Eq. 2 to 4.
    Use it to steer the two by hand, or its parts as a metric (α = 2, t = 2). It has no gradient dissipation: it
    goes on pushing pairs that are already far apart.
    Relations: ``mhe`` is its uniformity with t = 1; e^uniformity is the Gaussian energy of ``kcl``.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(AlignUniform(weight=1.0)(x, x).item(), 6)
    -4.0
    """

    source = "Wang & Isola 2020; Nie et al. 2023, Eq. 2-4"
    reductions = ("mean",)
    alpha: float = number(default=2.0, above=0)
    t: float = number(default=2.0, above=0, tune=(0.5, 8.0))
    weight: float = number(default=0.5, at_least=0, at_most=1, tune=(0.1, 0.9))
    pairs: str = choice("same", "cross", default="same")

    @property
    def negatives(self) -> str:
        return self.pairs

    @property
    def anchors(self) -> str:
        return "both" if self.pairs == "same" else "first"

    @property
    def scale(self) -> float:
        return 2 * self.t

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        # For α < 2 the power has an infinite slope at distance 0.
        square = self.alpha == 2
        distance = 2 - 2 * positive if square else squared_chord(positive).clamp_min(1e-12) ** (self.alpha / 2)
        return {"distance": distance, "potential": logsumexp, "pairs": num_negatives.to(positive)}

    def combine(self, statistics: Statistics) -> Statistics:
        alignment = (1 - self.weight) * statistics["distance"].mean()
        uniformity = self.weight * energy_of_all(statistics["potential"], statistics["pairs"], 2 * self.t)
        return {"loss": alignment + uniformity, "alignment": alignment, "uniformity": uniformity}
