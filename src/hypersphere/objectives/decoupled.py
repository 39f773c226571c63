"""Decoupled contrastive losses: the positive is not in the denominator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics
from hypersphere.objectives.hardest import hinge
from hypersphere.objectives.logsumexp import LogSumObjective, energy_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, choice, number


class Decoupled(LogSumObjective):
    """What the decoupled losses share: the softmax energy of the negatives alone."""

    temperature: float = number(default=0.05, above=0, learnable=True, tune=TEMPERATURES)
    negatives: str = choice("cross", "both", default="cross")  # type: ignore[misc]

    @property
    def anchors(self) -> str:
        return "both" if self.negatives == "both" else "first"

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        alignment, energy = -positive / self.temperature, energy_of(logsumexp, num_negatives)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


@register("dcl")
class DCL(Decoupled):
    """InfoNCE without the positive in its denominator: a gradient that never dissipates.

    L_i = -s_ii/τ + log Σ_{j≠i} e^{s_ij/τ}; negatives "cross": h'_j, N anchors; "both": h_j and h'_j, 2N anchors.

    Source: Yeh et al. 2022 (both); Nie et al. 2023 (cross).
    Use it for small batches, where InfoNCE's gradient dies early; expect overfitting in long runs (Nie, Fig. 1).
    The value becomes negative, which is no error.
    Relations: ``infonce`` is its softplus, anchor by anchor; ``dcl_plus`` its positive part; ``dclw`` weighs positives.

    >>> x = torch.eye(4)
    >>> round(DCL(temperature=1.0)(x, x).item(), 6)
    0.098612
    """

    source = "Yeh et al. 2022; Nie et al. 2023"


@register("dcl_plus")
class DCLPlus(LogSumObjective):
    """DCL that stops at zero: gradient dissipation put back.

    L_i = max(0, -s_ii/τ + log Σ_{j≠i} e^{s_ij/τ}), mean over anchors, zeros included.

    Source: Nie et al. 2023, Eq. 10.
    Use it to see what dissipation alone does for DCL; temperatures of .10 to .20.
    Relations: 0 ≤ ``infonce`` - ``dcl_plus`` ≤ log 2 per anchor; bounded by ``mpt``/τ with m = τ log(N-1).

    >>> x = torch.eye(4)
    >>> DCLPlus()(x, x).item()
    0.0
    """

    source = "Nie et al. 2023, Eq. 10"
    temperature: float = number(default=0.15, above=0, learnable=True, tune=TEMPERATURES)

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        return hinge(-positive / self.temperature, logsumexp, num_negatives > 0)


@register("dclw")
class DCLW(Decoupled):
    """Decoupled loss whose positive counts more for the pairs that are worse aligned than the others.

    L_i = -w_i s_ii/τ + log Σ_{j≠i} e^{s_ij/τ}, w_i = 2 - e^{s_ii/σ} / mean_k e^{s_kk/σ}; w carries no gradient.

    Source: Yeh et al. 2022 (DCLW). negatives "both" is their form (2N anchors), "cross" that of Nie et al. 2023.
    Use it where positives vary much in quality.
    Relations: w = 1 gives ``dcl``, and so does σ → ∞. lightly detaches w as we do; the code of
    raminnakhli/Decoupled-Contrastive-Learning lets gradients flow through it: the same value, another gradient.

    >>> x = torch.eye(4)
    >>> round(DCLW(temperature=1.0)(x, x).item(), 6)
    0.791759
    """

    source = "Yeh et al. 2022"
    reductions = ("mean", "sum")
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)
    negatives: str = choice("both", "cross", default="both")  # type: ignore[misc]
    sigma: float = number(default=0.5, above=0, tune=(0.1, 2.0))

    def prepare(self, x: Tensor, y: Tensor) -> Tensor:
        """log mean_k e^{s_kk/σ}: all that couples the anchors."""
        return torch.logsumexp((x * y).sum(dim=1) / self.sigma, dim=0) - math.log(len(x))

    def adjust(self, statistics: Statistics, anchors: Anchors) -> Statistics:
        weight = 2 - torch.exp(anchors.positive.detach() / self.sigma - anchors.context)
        alignment, energy = weight * statistics["alignment"], statistics["energy"]
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}
