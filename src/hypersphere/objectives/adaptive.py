"""MACL: a temperature that follows how well the batch is aligned."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine import Inputs, Statistics
from hypersphere.engine.batch import positives
from hypersphere.engine.distributed import world_size
from hypersphere.engine.inputs import assemble, check_inputs
from hypersphere.geometry import unit
from hypersphere.objectives.base import Objective, PairwiseObjective
from hypersphere.objectives.logsumexp import LogSumObjective, energy_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, number

WEIGHTLESS = -50.0  # below this DCL loss the value is 1 to all digits


class ReweightedSoftmax(LogSumObjective):
    """NT-Xent rows times sg(1/(1-P_i)): with x the loss of ``dcl``, the value (1+e^{-x}) log(1+e^x), the gradient of x.

    The gradient of log(1+e^x) is that of x times 1/(1+e^{-x}), which the weight cancels.
    """

    name = "macl"
    negatives = "both"
    anchors = "both"
    fewest = 2
    temperature: float = number(default=0.1, above=0)

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        alignment, energy = positive / -self.temperature, energy_of(logsumexp, num_negatives)
        x = alignment + energy
        fixed = x.detach()
        likely = fixed.clamp_min(WEIGHTLESS)
        value = softplus(likely, threshold=50) * (1 + torch.exp(-likely))
        return {"loss": value + (x - fixed), "alignment": alignment, "energy": energy}


@register("macl")
class MACL(Objective):
    """NT-Xent whose temperature grows with the alignment of the batch, without InfoNCE's dissipation.

    τ = τ₀(1 + α(A - A₀)), A = mean_i c_i; L_i = -log P_i / (1-P_i), P_i the share of the positive among itself and the
    2N-2 negatives, mean over 2N anchors; τ₀ = ``temperature``, α = ``alpha``, A₀ = ``a0``. A and 1/(1-P_i) carry no
    gradient. A is the mean over all processes if they gather.

    Source: Huang et al. 2023 (MACL), as in lightly.
    Use it where alignment changes much in the course of training, so that no fixed temperature fits.
    Relations: its gradient is that of ``dcl`` with negatives both at temperature τ; only the adaptive τ is new. An
    anchor whose negatives are all dropped keeps its alignment, as in ``dcl``.

    >>> x = torch.eye(4)
    >>> round(MACL(temperature=1.0, alpha=0.0)(x, x).item(), 6)
    1.693413
    """

    source = "Huang et al. 2023"
    fewest = 2
    takes = PairwiseObjective.takes
    temperature: float = number(default=0.1, above=0, tune=TEMPERATURES)
    alpha: float = number(default=0.5, at_least=0, tune=(0.0, 0.9))
    a0: float = number(default=0.0, at_least=-1, at_most=1)
    change: ClassVar[Any] = staticmethod(lambda softmax: softmax)  # what ``map_pairwise`` makes of the softmax

    def check(self) -> None:
        fall = self.alpha * (1 + self.a0)
        if fall >= 1:
            raise ValueError(f"macl's temperature could reach 0: alpha · (1 + a0) must be below 1, not {fall:g}")

    def build(self) -> None:
        self.softmax = ReweightedSoftmax()
        self.follow()

    def follow(self) -> None:
        self.softmax.gather = self.gather
        self.softmax.reduction = self.reduction

    def map_pairwise(self, change: Callable[[PairwiseObjective], Any]) -> Any:
        seen, earlier = copy.copy(self), self.change
        seen.change = lambda softmax: change(earlier(softmax))  # type: ignore[misc]
        seen.change(self.softmax)  # says why, if it cannot be changed
        return seen

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        softmax = copy.copy(self.softmax)  # whose temperature is this call's, also in a backward after the next call
        views = Inputs(inputs.z1, inputs.z2)
        check_inputs(views)
        with torch.no_grad():
            aligned = _cosines_of_all(softmax, views).mean().item()
        softmax.temperature = self.temperature * (1 + self.alpha * (aligned - self.a0))
        values: Statistics = self.change(softmax).evaluate(inputs, terms)
        return values


def _cosines_of_all(softmax: ReweightedSoftmax, views: Inputs) -> Tensor:
    """The cosines of the positives of all processes."""
    if world_size(softmax.gather) == 1:  # without the rest of a batch
        return positives(softmax, unit(views.z1), unit(views.z2))
    batch, _ = assemble(softmax, views)
    return positives(softmax, *batch.rows[:2])
