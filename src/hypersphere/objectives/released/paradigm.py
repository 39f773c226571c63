"""The baseline of Li et al. 2024 as their code has it: its ratio acts twice."""

from __future__ import annotations

from torch import Tensor

from hypersphere.engine import Statistics, count
from hypersphere.objectives.paradigm import Paradigm
from hypersphere.objectives.registry import register
from hypersphere.objectives.released.whole import WholeObjective, other_instances


@register("released/paradigm")
class ReleasedParadigm(WholeObjective, Paradigm):
    """The baseline of Li et al. as their code computes it: a ratio of r acts as 2r.

    Each view is the anchors once, and the two directions add. Keys carry no gradient, but the positive term moves both
    its vectors in either direction.
    Each direction is divided by N and by the number of anchors whose gate is open (none: 0, where the code has NaN).

    Source: the code of Li et al. 2024.
    Use it only to compare with numbers of that code.
    Relations: ``paradigm`` is Eq. 4 and 5, and has the components dissipation, weight and ratio.

    >>> import torch
    >>> x = torch.eye(4)
    >>> ReleasedParadigm(dissipation="none")(x, x).item()
    -0.5
    """

    source = "code of Li et al. 2024"

    def direction(self, x: Tensor, y: Tensor) -> Statistics:
        keys = (y if self.negatives == "cross" else x).detach()
        positive, negatives, mask = (x * y).sum(dim=1), x @ keys.T, other_instances(x)
        statistics = self.per_anchor(positive, negatives, mask)
        open_gates = (self.dissipation(positive.detach(), negatives.detach(), mask) != 0) & (count(mask) > 0)
        return {name: value / open_gates.sum().clamp_min(1) for name, value in statistics.items()}
