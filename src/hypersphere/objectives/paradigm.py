"""The gradient paradigm as an objective: dissipation, weight and ratio chosen one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Statistics, count, weighted_sum
from hypersphere.geometry.distances import detached
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.components import DISSIPATIONS, RATIOS, WEIGHTS, Component
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import anything, choice


@register("paradigm")
class Paradigm(PairwiseObjective):
    """Any combination of gradient dissipation, weight and ratio.

    L_i = GD_i Σ_{j≠i} W_ij (s_ij - R_i s_ii); GD, W and R carry no gradient, so
    ∂L_i/∂h_i = GD_i Σ_{j≠i} W_ij (h'_j - R_i h'_i). The value means nothing by itself.

    Each component is a name, a mapping {"name": …, parameters…}, or a callable of the positive similarities (B,),
    the negatives (B, M) and their mask (B, M) that returns (B,), for a weight (B, M).
    dissipation: none, margin, softmax, euclidean, angle; weight: softmax, hardest, uniform, power, euclidean, angle;
    ratio: constant, euclidean, angle, arccon.

    Source: Li et al. 2024, Eq. 4 and 5; the defaults are their baseline (margin .3, softmax .05, ratio 1).
    Use it to compose a loss of your own, or to change one component of a known one.
    Relations: dissipation softmax, weight softmax scaled, ratio 1 rebuild ``infonce``; margin, hardest, 1 ``mpt``;
    euclidean three times ``met``.

    >>> x = torch.eye(4)
    >>> Paradigm(ratio={"name": "constant", "value": 1.5})
    Paradigm(dissipation=margin(margin=0.3), weight=softmax(temperature=0.05, scaled=False),
    ratio=constant(value=1.5), negatives='cross')
    >>> Paradigm(dissipation="none")(x, x).item()
    -1.0
    """

    source = "Li et al. 2024, Eq. 4-5"
    dissipation: Any = anything(default="margin")
    weight: Any = anything(default="softmax")
    ratio: Any = anything(default="constant")
    negatives: str = choice("cross", "same", default="cross")  # type: ignore[misc]

    def check(self) -> None:
        self.dissipation = _component(self.dissipation, DISSIPATIONS, "dissipation")
        self.weight = _component(self.weight, WEIGHTS, "weight")
        self.ratio = _component(self.ratio, RATIOS, "ratio")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        known, exists = (detached(positive), detached(negatives), mask), count(mask) > 0
        gate, ratio = (torch.where(exists, component(*known), 0) for component in (self.dissipation, self.ratio))
        if isinstance(self.weight, Component):  # ours are 0 outside the mask
            total, along = self.weight.sums(positive, negatives, mask)
        else:
            weight = torch.where(mask, self.weight(*known), 0)
            total, along = weight.sum(dim=1), weighted_sum(weight, negatives)
        alignment = -gate * ratio * torch.where(exists, total, 0) * positive
        energy = gate * torch.where(exists, along, 0)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


def _component(given: Any, known: dict[str, type[Component]], what: str) -> Any:
    """A component from its name, a mapping with its parameters, or a callable."""
    params: dict[str, Any] = {}
    if isinstance(given, Mapping):
        params = dict(given)
        given = params.pop("name", None)
    if isinstance(given, str):
        if given not in known:
            raise ValueError(f"paradigm's {what} must be {', '.join(known)} or a callable, not {given!r}")
        return known[given].create(params, f"paradigm's {what} {given!r}")
    if callable(given) and not params:
        return given
    raise ValueError(f'paradigm\'s {what} must be a name, a mapping {{"name": …}} or a callable, not {given!r}')
