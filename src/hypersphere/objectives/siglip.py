"""SigLIP: every pair is a binary classification of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine import SOFTPLUS, Statistics, masked_sum_of
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, flag, number


@register("siglip")
class SigLIP(PairwiseObjective):
    """Logistic loss on every pair, with a temperature and a bias that are learned.

    L = (1/N) Σ_i Σ_j softplus(-y_ij (s_ij/τ + b)), y = +1 on the diagonal, -1 off it.

    Source: Zhai et al. 2023.
    Use it with very large batches of two modalities; no softmax couples the columns.
    Relations: the hinge-free cousin of ``mpt``; the bias plays the part of log N in ``infonce``.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(SigLIP()(x, x).item(), 6)
    0.693283
    """

    source = "Zhai et al. 2023"
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)
    bias: float = number(default=-10.0, learnable=True, tune=(-20.0, 0.0))
    learnable: bool = flag(default=True)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        scale, bias = 1 / self.temperature, self.bias
        alignment = softplus(-(positive * scale + bias), threshold=50)
        energy = masked_sum_of(SOFTPLUS, negatives, mask, scale, bias)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}
