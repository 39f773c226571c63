"""X-CLR: targets that are similarities, of another model, instead of one positive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypersphere.engine import Anchors, GuideRule, Inputs, Statistics, masked_logsumexp
from hypersphere.engine.mask import Diagonals, mask_except
from hypersphere.engine.reductions import masked_softmax, weighted_sum
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, number


@register("xclr")
class XCLR(PairwiseObjective):
    """Cross-entropy of the softmax over all other rows with that of a guide's similarities.

    L_a = -Σ_{b≠a} q_ab log p_ab over the 2N stacked rows, p_a = softmax_{b≠a}(z_a·z_b/τ) and
    q_a = softmax_{b≠a}(G_ab/τ_s), G the cosines of the rows of ``guide=``, which a call must give; mean over 2N;
    τ_s = ``graph_temperature``. The target carries no gradient.

    Source: Sobal et al. 2024 (X-CLR). The temperatures are those of third-party code.
    Use it where a model of captions or classes grades how similar two instances are.
    Relations: τ_s → 0 is ``ntxent`` if all guides are different, and ``supcon`` if they are those of classes. Never
    below the mean entropy of the targets. ``guided`` uses a guide to drop negatives instead.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(XCLR(temperature=1.0, graph_temperature=1.0)(x, x, guide=x).item(), 5)
    1.85363
    """

    source = "Sobal et al. 2024"
    negatives = "both"
    anchors = "both"
    fewest = 2
    takes = frozenset({"guide"})
    needs = frozenset({"guide"})
    reads_guide = True
    nature = "has a target for each pair of rows, from their guide"
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)
    graph_temperature: float = number(default=0.1, above=0, tune=TEMPERATURES)

    def block(self, anchors: Anchors) -> Statistics:
        (cosines,) = anchors.negatives
        assert anchors.guide is not None
        itself = Diagonals((anchors.block.start + cosines.shape[1] // 2,))  # in the second half, the anchors' own view
        others = mask_except(itself, (len(cosines), cosines.shape[1]), holds=False, device=cosines.device)
        target = masked_softmax(anchors.guide[0], others, 1 / self.graph_temperature)
        scale = 1 / self.temperature
        energy, alignment = masked_logsumexp(cosines, others, scale), -scale * weighted_sum(target, cosines)
        return self.finish_block({"loss": alignment + energy, "alignment": alignment, "energy": energy}, anchors)

    @property
    def only_similarities(self) -> bool:
        return False

    def map_pairwise(self, change: Callable[[PairwiseObjective], Any]) -> Any:
        raise ValueError("xclr has a target for each pair of rows, from their guide: a mixed row has none")

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        if inputs.guide is None:
            raise ValueError("xclr needs guide: give guide= in its call")
        return super().evaluate(replace(inputs, rule=GuideRule(reads=())), terms)
