"""Triplet objectives: the hardest negative only, and nothing once it is a margin away."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import relu

from hypersphere.engine import masked_max
from hypersphere.geometry import chord
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import number


@register("met")
class MET(PairwiseObjective):
    """Triplet on the Euclidean distance with the nearest negative.

    L_i = max(0, ‖h_i-h'_i‖ - min_{j≠i} ‖h_i-h'_j‖ + m), mean over anchors.

    Source: Nie et al. 2023, section 5 (MET); best margins 0.40 to 0.50.
    Use it where a contrastive loss overfits: an anchor whose margin holds gets no gradient at all.
    Relations: ``mpt`` on the dot product, ``mat`` on the angle; its ratio is d_neg/d_pos > 1 in ``paradigm``.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(MET()(x, x.roll(1, 0)).item(), 6)
    1.864213
    """

    source = "Nie et al. 2023"
    margin: float = number(default=0.45, at_least=0)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Tensor:
        return relu(chord(positive) - chord(masked_max(negatives, mask)) + self.margin)
