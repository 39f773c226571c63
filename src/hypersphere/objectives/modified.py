"""The modified objectives of Li et al. 2024: only anchors move, gated, weighted, with a fixed ratio."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, masked_logsumexp, masked_max, masked_softmax, masked_sum
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


class ModifiedObjective(PairwiseObjective):
    """Gradient of anchor x_i: d_i ( Σ_{j≠i} W_ij x_j - P_i y_i ), d_i = 1[s_ii - max_{k≠i} s_ik < m] from +gd on.

    Weights, keys and positives carry no gradient; the value Σ_i d_i (Σ_j W_ij x_i·x_j - P_i x_i·y_i) means nothing
    by itself. views "both": each view takes its turn as the anchor and the two add; "anchor": the first only.
    """

    one_sided = True
    turns_add = True
    reductions: ClassVar[tuple[str, ...]] = ("sum", "mean")
    weigh_by: ClassVar[str] = "same"  # the similarities the exponential weights are made of

    margin: float = number(default=0.30)
    temperature: float = number(default=0.05, above=0)
    ratio: float = number(default=1.5, at_least=0)
    weight: float = number(default=30.0, at_least=0)
    stage: str = choice("original", "+gd", "+w", "+r", default="+r")
    views: str = choice("both", "anchor", default="both")
    reduction: str = choice("sum", "mean", "none", default="sum")

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
    def negatives(self) -> tuple[str, ...]:
        wanted = [
            "same",
            self.weigh_by if self.weighted else self.original_weights,
            "cross" if self.gated else "same",
        ]
        return tuple(dict.fromkeys(wanted))

    original_weights: ClassVar[str] = "same"

    def matrix(self, anchors: Anchors, name: str) -> Tensor:
        return anchors.negatives[self.negatives.index(name)]

    def block(self, anchors: Anchors) -> Statistics:
        same, mask = self.matrix(anchors, "same"), anchors.mask
        positive = anchors.positive.detach()
        gate = torch.ones_like(positive)
        if self.gated:
            gate = (positive - masked_max(self.matrix(anchors, "cross").detach(), mask) < self.margin).to(positive)
        return {"gate": gate, **self.pull(anchors), **self.push(anchors, same, mask)}

    def pull(self, anchors: Anchors) -> Statistics:
        return {"positive": anchors.positive}

    def push(self, anchors: Anchors, same: Tensor, mask: Tensor) -> Statistics:
        """Mean of x_i·x_j under the anchor's own weights, and the logarithm of its share of all weight."""
        scale = self.exponent
        by = self.matrix(anchors, self.weigh_by).detach()
        return {
            "negative": (masked_softmax(by, mask, scale) * same).sum(dim=1),
            "mass": masked_logsumexp(by, mask, scale),
        }

    @property
    def exponent(self) -> float:
        return 1 / self.temperature

    def total_weight(self, mass: Tensor) -> Tensor:
        """Σ_j W_ij of each anchor."""
        raise NotImplementedError

    def combine(self, statistics: Statistics) -> Statistics:
        weight = self.total_weight(statistics["mass"].detach())
        size = len(weight)
        pull = self.ratio * weight if self.stage == "+r" else 2 / size
        gate = statistics["gate"]
        alignment = -gate * pull * statistics["positive"]
        energy = gate * weight * statistics["negative"]
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


@register("mmhe")
class ModifiedMHE(ModifiedObjective):
    """Minimum hyperspherical energy made an effective loss, in stages.

    original, +gd: W_ij = 2ν e^{2a_ij} / Σ_{k<l} e^{2a_kl}, P = 2/N; +w: W_ij = e^{a_ij/τ} / (τ Σ_{k<l} e^{a_kl/τ});
    +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i. Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 14 and 16 (corrected: the shared term counts once), Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, τ .05, r 1.75; RoBERTa-base: r 1.25). Compare gradients, not values.
    Relations: the original stage has the gradient of alignment + ν(U(h)+U(h')) with ``mhe``'s U.

    >>> x = torch.eye(4)
    >>> round(ModifiedMHE(margin=2.0)(x, x).item(), 6)
    -140.0
    """

    source = "Li et al. 2024, Eq. 14, 16"
    ratio: float = number(default=1.75, at_least=0)
    weight: float = number(default=10.0, at_least=0)

    @property
    def exponent(self) -> float:
        return 1 / self.temperature if self.weighted else 2.0

    def total_weight(self, mass: Tensor) -> Tensor:
        factor = 1 / self.temperature if self.weighted else 2 * self.weight
        return 2 * factor * torch.softmax(mass, dim=0)  # twice: Σ_{k<l} is half of the sum over ordered pairs


@register("mbarlow")
class ModifiedBarlow(ModifiedObjective):
    """Barlow Twins made an effective loss, in stages.

    original, +gd: W_ij = 2ν b_ij/N², P y_i = (2/N)(I - (1-ν) diag C) y_i, C = mean_i h_i h'_iᵀ, b_ij = y_i·y_j;
    +w: W_ij = e^{s_ij/τ} / Σ_{k≠l} e^{s_kl/τ}, P = 2/N; +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i.
    Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 6, 10 (corrected: weight h'_i·h'_j) and 13, Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, τ .05, r 1.5; RoBERTa-base: m .37, r 1.25). Compare gradients, not values.
    Relations: the original stage has the gradient of ``barlow`` on unit vectors with weight ν.

    >>> x = torch.eye(4)
    >>> round(ModifiedBarlow(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "Li et al. 2024, Eq. 6, 10, 13"
    weigh_by = "cross"
    original_weights = "other"

    def prepare(self, x: Tensor, y: Tensor) -> Tensor:
        """Weights (D,) of the features in the positive's pull: 1 - (1-ν) C_kk."""
        return 1 - (1 - self.weight) * (x * y).mean(dim=0)

    def pull(self, anchors: Anchors) -> Statistics:
        if self.weighted:
            return super().pull(anchors)
        return {"positive": (anchors.rows * anchors.others * anchors.context).sum(dim=1)}

    def push(self, anchors: Anchors, same: Tensor, mask: Tensor) -> Statistics:
        if self.weighted:
            return super().push(anchors, same, mask)
        weights = self.matrix(anchors, "other").detach()
        return {"negative": masked_sum(weights * same, mask), "mass": torch.zeros_like(anchors.positive)}

    def total_weight(self, mass: Tensor) -> Tensor:
        if self.weighted:
            return torch.softmax(mass, dim=0)
        return torch.full_like(mass, 2 * self.weight / len(mass) ** 2)
