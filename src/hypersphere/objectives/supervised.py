"""Supervised contrastive learning: several positives per anchor."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from hypersphere.engine import Inputs, Statistics, count, masked_logsumexp, masked_sum
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.logsumexp import energy_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, choice, number


@register("supcon")
class SupCon(PairwiseObjective):
    """NT-Xent in which all rows of the anchor's label are positives.

    form "out": L_i = -(1/|P_i|) Σ_{p∈P_i} log( e^{z_i·z_p/τ} / Σ_{a≠i} e^{z_i·z_a/τ} ) over the 2N stacked rows;
    form "in": L_i = -log( (1/|P_i|) Σ_{p∈P_i} e^{z_i·z_p/τ} / Σ_{a≠i} e^{z_i·z_a/τ} ).
    P_i: the rows of the same label without i, always with i's other view; label -1: the other view only.
    anchors: "both" views, or "first": the rows of z1 alone against all rows (contrast_mode "one" of the authors' code).
    A single labelled view is a batch too: ``supcon(z, labels=labels)``. There P_i may be empty; then L_i = 0.

    Source: Khosla et al. 2020, both forms.
    Use it when some or all labels are known. "out" is the better one in the paper.
    Relations: without labels it is ``ntxent``. The authors' code multiplies the loss by τ over a base temperature
    (.07), which is 1 at its own default τ = .07; here there is no such factor.

    >>> x = torch.eye(4)
    >>> round(SupCon(temperature=1.0)(x, x, torch.tensor([0, 0, 1, 1])).item(), 6)
    1.832089
    """

    source = "Khosla et al. 2020"
    _one_view: ClassVar[bool] = False
    labelled = True
    anchors: str = choice("both", "first", default="both")  # type: ignore[misc]
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)
    form: str = choice("out", "in", default="out")

    @property
    def negatives(self) -> str:
        return "same" if self._one_view else "both"

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        if inputs.z2 is not None:
            return PairwiseObjective.evaluate(self, inputs, terms)
        if inputs.labels is None:
            raise ValueError("supcon of one view needs labels: they alone name its positives")
        alone = copy.copy(self)
        alone.__dict__.update(_one_view=True, anchors="first")
        return alone.evaluate(replace(inputs, z2=inputs.z1), terms)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        scale, (same,) = 1 / self.temperature, same_label
        if self._one_view:
            return self._alone(negatives, mask, same, scale)
        own = positive * scale
        energy = torch.logaddexp(own, masked_logsumexp(negatives, mask, scale))
        positives = 1 + count(same).to(positive)
        if self.form == "out":
            alignment = -(own + masked_sum(negatives, same) * scale) / positives
        else:
            alignment = positives.log() - torch.logaddexp(own, masked_logsumexp(negatives, same, scale))
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}

    def _alone(self, rows: Tensor, mask: Tensor, same: Tensor, scale: Any) -> Statistics:
        """The same where the anchor has no other view."""
        positives = count(same).to(rows)
        energy = energy_of(masked_logsumexp(rows, mask, scale), positives)
        if self.form == "out":
            alignment = -masked_sum(rows, same) * scale / positives.clamp_min(1)
        else:
            alignment = energy_of(positives.clamp_min(1).log() - masked_logsumexp(rows, same, scale), positives)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}
