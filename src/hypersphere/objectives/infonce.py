"""InfoNCE and NT-Xent: the positive against a softmax over everything."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine import Statistics, masked_logsumexp
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import flag, number


class SoftmaxObjective(PairwiseObjective):
    """-log of the positive's share in a softmax over the positive and the negatives."""

    temperature: float = number(default=0.05, above=0, learnable=True)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Statistics:
        scale = 1 / self.temperature
        alignment = -positive * scale
        others = masked_logsumexp(negatives, mask, scale)
        return {
            # log(1 + exp(others - positive)) keeps its digits when the loss is tiny; the difference of the two
            # logarithms does not.
            "loss": softplus(others + alignment, threshold=50),
            "alignment": alignment,
            "energy": torch.logaddexp(others, -alignment),
        }


@register("infonce")
class InfoNCE(SoftmaxObjective):
    """Cross-entropy of picking the positive among all keys of the other view.

    L_i = -log( e^{s_ii/τ} / Σ_j e^{s_ij/τ} ), mean over anchors; ``symmetric`` averages rows and columns.

    Source: SimCSE (Gao et al. 2021); L_cl in Nie et al. 2023, Eq. 1; L^info in Li et al. 2024; CLIP if symmetric.
    Use it when in doubt: it is the reference all others are compared with. It needs many negatives and its gradient
    dissipates once an anchor's gap exceeds τ log(N-1).
    Relations: softplus of ``dcl``; ``ntxent`` adds the anchor's own view to the denominator; ``arccon`` with angle 0.

    >>> x = torch.eye(4)
    >>> round(InfoNCE(temperature=1.0)(x, x).item(), 6)
    0.743668
    """

    source = "Gao et al. 2021; Nie et al. 2023, Eq. 1"
    symmetric: bool = flag(default=False)

    @property
    def anchors(self) -> str:
        return "both" if self.symmetric else "first"


@register("ntxent")
class NTXent(SoftmaxObjective):
    """Cross-entropy of picking the positive among all other rows of both views.

    l_i = -z_i·z_j(i)/τ + log Σ_{a≠i} e^{z_i·z_a/τ} over the 2N stacked rows, mean over 2N.

    Source: SimCLR (Chen et al. 2020); Li & Pimentel-Alarcón 2024, Eq. 1 (there as a sum).
    Use it for images with strong augmentation, at a higher temperature than ``infonce``.
    Relations: ``dcl`` with negatives both drops the positive from the denominator; ``supcon`` without labels.

    >>> x = torch.eye(4)
    >>> round(NTXent(temperature=1.0)(x, x).item(), 6)
    1.165423
    """

    source = "Chen et al. 2020; Li & Pimentel-Alarcón 2024, Eq. 1"
    negatives = "both"
    anchors = "both"
    temperature: float = number(default=0.5, above=0, learnable=True)
