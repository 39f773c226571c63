"""Global orthogonal regularisation: the first two moments of the cosines of a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Inputs, Statistics, count, evaluate_features, masked_sum
from hypersphere.geometry import unit, widened
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, flag, number


@register("gor")
class GOR(PairwiseObjective):
    """Rows of a view should be as orthogonal as random ones: the moments of their cosines are held down.

    L = w₁ M1² + w₂ max(0, M2 - 1/D) for each view, M1 = mean_{i≠j} a_ij, M2 = mean_{i≠j} a_ij², w₁ = ``mean_weight``,
    w₂ = ``second_weight``. 1/D is the second moment of uniform rows; without ``hinge`` the term is w₂ M2.
    aggregation: the "mean" or the "sum" over the views. Dropped pairs leave the sums and their number. It aligns
    nothing.

    Source: Zhang et al. 2017. EmbeddingGemma (2025) has mean_weight 0, no hinge, and the sum over the views.
    Use it as the second part of ``plus``, so that different instances are near to orthogonal.
    Relations: M2 is the energy of ``spectral`` within a view.

    >>> x = torch.eye(4)
    >>> GOR()(x, x).item()
    0.0
    >>> round(GOR()(torch.ones(4, 2), torch.ones(4, 2)).item(), 6)
    1.5
    """

    source = "Zhang et al. 2017"
    negatives = "same"
    anchors = "both"
    fewest = 2
    reductions = ("mean",)
    takes = PairwiseObjective.takes | {"views"}
    mean_weight: float = number(default=1.0, at_least=0)
    second_weight: float = number(default=1.0, at_least=0)
    aggregation: str = choice("mean", "sum", default="mean")
    hinge: bool = flag(default=True)

    @property
    def sum_directions(self) -> bool:
        return self.aggregation == "sum"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        sums, squares = masked_sum(negatives, mask), masked_sum(negatives**2, mask)
        return {"sums": sums, "squares": squares, "pairs": count(mask).to(positive)}

    def adjust(self, statistics: Statistics, anchors: Anchors) -> Statistics:
        uniform = statistics["pairs"] / anchors.rows.shape[1] if self.hinge else 0
        return {**statistics, "squares": statistics["squares"] - uniform}

    def combine(self, statistics: Statistics) -> Statistics:
        pairs = statistics["pairs"].sum().clamp_min(1)
        return self.from_moments(statistics["sums"].sum() / pairs, statistics["squares"].sum() / pairs)

    def from_moments(self, first: Tensor, second: Tensor) -> Statistics:
        """The loss of a view from M1 and from M2, or M2 - 1/D if there is a hinge."""
        mean = self.mean_weight * first**2
        second = self.second_weight * (torch.relu(second) if self.hinge else second)
        return {"loss": mean + second, "mean": mean, "second": second}

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        # Where all pairs count, their moments are those of the features. A mixed column is no row of a view.
        if isinstance(self, GOR) and inputs.negatives is None and inputs.ids is None and inputs.guide is None:
            self.refuse_unused(inputs)
            return evaluate_features(cast(Any, _Features(self)), inputs, terms)
        return PairwiseObjective.evaluate(self, inputs, terms)


@dataclass(frozen=True)
class _Features:
    """The same as a function of the features, which costs N·D² instead of N²·D."""

    inner: GOR

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def rows(self, z: Tensor) -> Tensor:
        return widened(z)

    def features(self, *views: Tensor) -> Statistics:
        by_view = [self._of_view(unit(z)) for z in views]
        total = {name: torch.stack([each[name] for each in by_view]).sum(dim=0) for name in by_view[0]}
        share = 1 if self.inner.sum_directions else 1 / len(views)
        return {name: value * share for name, value in total.items()}

    def _of_view(self, h: Tensor) -> Statistics:
        """Σ_{i≠j} a_ij = ‖Σ_i h_i‖² - Σ_i ‖h_i‖², and Σ_{i≠j} a_ij² = ‖HᵀH‖² - Σ_i ‖h_i‖⁴."""
        size, dim = h.shape
        pairs, own = size * (size - 1), h.detach().square().sum(dim=1)
        gram = h.T @ h if dim < size else h @ h.T  # of equal norm
        first = (h.sum(dim=0).square().sum() - own.sum()) / pairs
        second = (gram.square().sum() - own.square().sum()) / pairs
        return self.inner.from_moments(first, second - 1 / dim if self.inner.hinge else second)
