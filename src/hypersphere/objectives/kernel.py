"""Kernel contrastive learning: kernel alignment and kernel energy, independent of the batch size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Statistics, count, masked_logsumexp, masked_mean
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


@register("kcl")
class KCL(PairwiseObjective):
    """Kernel alignment of positives and kernel energy within a view.

    L = -mean_i K(h_i, h'_i) + γ mean_{i≠j} K(h_i, h_j), with q = ‖·‖²: gaussian K = e^{-tq},
    log K = -½ log(1+tq). views "both" adds the same with the views exchanged (alignment counts twice).

    Source: Koromilas et al. 2024 (KCL).
    Use it for small batches: its expectation does not depend on the batch size.
    Relations: the logarithm of its Gaussian energy is the uniformity of ``align_uniform``; ``dhel`` is the form
    with a logarithm per anchor.

    >>> x = torch.eye(4)
    >>> round(KCL()(x, x).item(), 6)
    -0.70695
    """

    source = "Koromilas et al. 2024"
    negatives = "same"
    turns_add = True
    kernel: str = choice("gaussian", "log", default="gaussian")
    t: float = number(default=2.0, above=0)
    gamma: float = number(default=16.0, at_least=0)
    views: str = choice("anchor", "both", default="anchor")

    @property
    def anchors(self) -> str:
        return "both" if self.views == "both" else "first"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Statistics:
        t = self.t
        if self.kernel == "gaussian":
            closeness = torch.exp(-t * (2 - 2 * positive))
            potential = torch.exp(masked_logsumexp(negatives, mask, 2 * t) - 2 * t) / count(mask)
        else:
            closeness = -0.5 * torch.log(1 + 2 * t - 2 * t * positive)
            potential = -0.5 * masked_mean(torch.log(1 + 2 * t - 2 * t * negatives), mask)
        alignment, energy = -closeness, self.gamma * potential
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}
