"""What the modified objectives of Li et al. 2024 share: only anchors move, gated, weighted, with a fixed ratio."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hypersphere.engine import (
    Anchors,
    Statistics,
    count,
    masked_logsumexp,
    masked_max,
    masked_softmax,
    masked_sum,
    weighted_sum,
)
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.logsumexp import energy_of
from hypersphere.objectives.settings import TEMPERATURES, choice, number


class ModifiedObjective(PairwiseObjective):
    """Gradient of anchor x_i: d_i ( Σ_{j≠i} W_ij x_j - P_i y_i ), d_i = 1[s_ii - max_{k≠i} s_ik < m] from +gd on.

    Weights, keys and positives carry no gradient; the value Σ_i d_i (Σ_j W_ij x_i·x_j - P_i x_i·y_i) means nothing
    by itself. views "both": each view is the anchors once and the two directions add; "anchor": the first only.
    """

    one_sided = True
    sum_directions = True
    reductions: ClassVar[tuple[str, ...]] = ("sum", "mean")
    stages: ClassVar[tuple[str, ...]] = ("original", "+gd", "+w", "+r")

    margin: float = number(default=0.30, tune=(0.1, 0.9))
    temperature: float = number(default=0.05, above=0, tune=TEMPERATURES)
    ratio: float = number(default=1.5, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=30.0, at_least=0, tune=(3.0, 300.0))
    stage: str = choice("original", "+gd", "+w", "+r", default="+r")
    views: str = choice("both", "anchor", default="both")
    reduction: str = choice("sum", "mean", "none", default="sum")

    def check(self) -> None:
        if self.stage not in self.stages:
            raise ValueError(f"{self.name} has no stage {self.stage!r}, only {', '.join(self.stages)}")

    @property
    def anchors(self) -> str:
        return "both" if self.views == "both" else "first"

    @property
    def gated(self) -> bool:
        return self.stage != "original"

    @property
    def weighted(self) -> bool:
        return self.stage in ("+w", "+r")

    @property
    def weigh_by(self) -> str:
        """The similarities the weights are made of."""
        return "same"

    @property
    def negatives(self) -> tuple[str, ...]:
        wanted = ["same", self.weigh_by, *(["cross"] if self.gated else [])]
        return tuple(dict.fromkeys(wanted))

    def matrix(self, anchors: Anchors, name: str) -> Tensor:
        return anchors.negatives[self.negatives.index(name)]

    def mask(self, anchors: Anchors, name: str) -> Tensor:
        return anchors.masks[self.negatives.index(name)]

    def gate(self, anchors: Anchors) -> Tensor:
        """1 where the anchor moves."""
        positive = anchors.positive.detach()
        if not self.gated:
            return torch.ones_like(positive)
        hardest = masked_max(self.matrix(anchors, "cross").detach(), self.mask(anchors, "cross"))
        return (positive - hardest < self.margin).to(positive)

    def block(self, anchors: Anchors) -> Statistics:
        return {"gate": self.gate(anchors), **self.push(anchors), "positive": self.similarity(anchors)}

    def similarity(self, anchors: Anchors) -> Tensor:
        """x_i·y_i as it stands in the positive term."""
        return anchors.positive

    def push(self, anchors: Anchors) -> Statistics:
        """Mean of x_i·x_j under the anchor's own weights, and the logarithm of its share of all weight."""
        by, mask = self.matrix(anchors, self.weigh_by).detach(), self.mask(anchors, self.weigh_by)
        negative = weighted_sum(masked_softmax(by, mask, self.exponent), self.matrix(anchors, "same"))
        return {
            "negative": energy_of(negative, count(mask)),
            "mass": masked_logsumexp(by, mask, self.exponent).clamp_min(torch.finfo(by.dtype).min),
        }

    @property
    def exponent(self) -> float:
        return 1 / self.temperature

    def total_weight(self, mass: Tensor) -> Tensor:
        """Σ_j W_ij of each anchor."""
        raise TypeError(f"{type(self).__name__} must define total_weight")

    def combine(self, statistics: Statistics) -> Statistics:
        weight = self.total_weight(statistics["mass"].detach())
        pull = self.ratio * weight if self.stage == "+r" else 2 / len(weight)
        gate = statistics["gate"]
        alignment = -gate * pull * statistics["positive"]
        energy = gate * weight * statistics["negative"]
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


class QuadraticStart(ModifiedObjective):
    """Barlow Twins and VICReg: quadratic weights at first, exponential with a global normaliser from +w on."""

    def push(self, anchors: Anchors) -> Statistics:
        if self.weighted:
            return super().push(anchors)
        weights, along = self.matrix(anchors, self.weigh_by).detach(), self.matrix(anchors, "same")
        return {
            "negative": masked_sum(weights * along, self.mask(anchors, "same")),
            "mass": torch.zeros_like(anchors.positive),
        }

    def total_weight(self, mass: Tensor) -> Tensor:
        if self.weighted:
            return torch.softmax(mass, dim=0)
        return torch.full_like(mass, 2 * self.weight / len(mass) ** 2)
