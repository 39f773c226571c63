"""InfoNCE on the log-odds of the cosines, which need no temperature."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine import masked_sum_of
from hypersphere.engine.reductions import Curve
from hypersphere.geometry import squared_chord
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import flag, number

INSIDE = 1e-6  # negatives stay so far below a cosine of 1, positives above -1


@register("artanh_infonce")
class ArtanhInfoNCE(PairwiseObjective):
    """InfoNCE without a temperature: its logits are artanh of the cosines.

    L_i = -log( e^{λ artanh s_ii} / Σ_j e^{λ artanh s_ij} ) = log( 1 + Σ_{j≠i} (odds(s_ij)/odds(s_ii))^{λ/2} ), with
    odds(s) = (1+s)/(1-s) and λ = ``scale``, mean over anchors; ``symmetric`` averages rows and columns. With λ = 2 the
    logit is the log-odds of (1+s)/2. Cosines of negatives are kept below 1 - 1e-6, those of positives above -1 + 1e-6.

    Source: Kim & Kim 2025. Restatements of it differ in the factor: 2 (here the default) or 1.
    Use it where no temperature can be tuned.
    Relations: near s = 0 it is ``infonce`` with temperature 1/λ.

    >>> x = torch.eye(4)
    >>> y = torch.roll(x, 1, dims=0)
    >>> round(ArtanhInfoNCE()(x, (x + y) / 2).item(), 5)
    0.85149
    """

    source = "Kim & Kim 2025"
    fewest = 2
    farthest = -1.0
    extra_negatives = "first"
    scale: float = number(default=2.0, above=0, at_most=8, tune=(0.5, 8.0))
    symmetric: bool = flag(default=False)

    @property
    def anchors(self) -> str:
        return "both" if self.symmetric else "first"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        power = self.scale / 2
        total = masked_sum_of(odds_to(power), negatives, mask, -1.0, 1.0).clamp_min(0)  # rounding alone is below 0
        against = (squared_chord(positive) / 2).clamp_min(0) / (1 + positive).clamp_min(INSIDE)  # 1/odds(s_ii)
        if power < 1:  # whose derivative at 0 is infinite
            against = against.clamp_min(INSIDE / 2)
        # log(1 + against^power · total): the product, or its logarithm where it might overflow.
        if power <= 2:  # the product is below N · 2e25
            return torch.log1p((against if power == 1 else against**power) * total)
        small = power * against.detach().log() + total.detach().log() < 0
        product = torch.where(small, against, 0) ** power * torch.where(small, total, 0)
        logarithm = power * torch.where(small, 1, against).log() + torch.where(small, 1, total).log()
        return torch.where(small, torch.log1p(product), softplus(logarithm, threshold=50))


def odds_to(power: float) -> Curve:
    """odds(s)^power as a function of g = 1 - s: odds = 2/g - 1, flat below g = 1e-6; its derivative is
    -2·power odds^{power-1} / g²."""
    least = 0.0 if power >= 1 else INSIDE / 2  # a root has an infinite derivative at 0

    def value(gap: Tensor) -> Tensor:
        inverse = gap.clamp_min(INSIDE).reciprocal()
        odds = torch.add(inverse.new_tensor(-1), inverse, alpha=2)
        return odds if power == 1 else odds.clamp_min(least) ** power

    def derivative(gap: Tensor) -> Tensor:
        gap = torch.threshold_(gap, INSIDE, inf)  # which makes it 0 where it is flat
        if power == 1:
            return gap.pow_(-2).mul_(-2)
        inverse = gap.reciprocal_()
        odds = (2 * inverse).sub_(1)
        along = inverse.square_().mul_(-2 * power)
        return along.mul_(odds.clamp_min_(least).pow_(power - 1)).mul_(odds > least)

    return Curve(value, derivative)
