"""DCLW: the decoupled contrastive loss with weighted positives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Statistics, masked_logsumexp
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


@register("dclw")
class DCLW(PairwiseObjective):
    """Decoupled loss whose positive counts more for the pairs that are worse aligned than the others.

    L_i = -w_i s_ii/τ + log Σ_{j≠i} e^{s_ij/τ}, w_i = 2 - e^{s_ii/σ} / mean_k e^{s_kk/σ}; w carries no gradient.

    Source: Yeh et al. 2022 (DCLW). negatives "both" is their form (2N anchors), "cross" that of Nie et al. 2023.
    Use it where positives vary much in quality.
    Relations: w = 1 gives ``dcl``; σ → ∞ too.

    >>> x = torch.eye(4)
    >>> round(DCLW(temperature=1.0)(x, x).item(), 6)
    0.791759
    """

    source = "Yeh et al. 2022"
    reductions = ("mean", "sum")
    temperature: float = number(default=0.1, above=0, learnable=True)
    sigma: float = number(default=0.5, above=0)
    negatives: str = choice("both", "cross", default="both")  # type: ignore[misc]

    @property
    def anchors(self) -> str:
        return "both" if self.negatives == "both" else "first"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Statistics:
        return {"positive": positive, "energy": masked_logsumexp(negatives, mask, 1 / self.temperature)}

    def combine(self, statistics: Statistics) -> Statistics:
        positive, energy = statistics["positive"], statistics["energy"]
        weight = 2 - len(positive) * torch.softmax(positive.detach() / self.sigma, dim=0)
        alignment = -weight * positive / self.temperature
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}
