"""Objectives of Li et al. 2024 with a misprint of the paper taken literally."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, count, masked_max, masked_min
from hypersphere.objectives.hardest import hinge
from hypersphere.objectives.modified import COINCIDENT, ModifiedBarlow, ModifiedMHE, ModifiedMHS
from hypersphere.objectives.registry import register
from hypersphere.objectives.triplet import DISTANCES, Triplet


@register("printed/triplet")
class PrintedTriplet(Triplet):
    """Triplet with the farthest negative, as Li et al. 2024 print it.

    L_i = max(0, d(h_i, h'_i) - max_{j≠i} d(h_i, h'_j) + m), mean over anchors.

    Source: Li et al. 2024 (erratum E1: max for min).
    Use it only to see what the misprint does.
    Relations: ``triplet`` has the nearest negative.

    >>> x = torch.eye(4)
    >>> round(PrintedTriplet(distance="dot", margin=1.5)(x, x).item(), 6)
    0.5
    """

    source = "Li et al. 2024, misprint E1"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        if callable(self.distance):
            farthest = masked_max(self.distance(negatives), mask)
            return hinge(self.distance(positive), self.margin - farthest, count(mask) > 0)
        distance = DISTANCES[self.distance][0]
        return hinge(distance(positive), self.margin - distance(masked_min(negatives, mask)), count(mask) > 0)


@register("printed/mmhe")
class PrintedModifiedMHE(ModifiedMHE):
    """Modified MHE in which every open anchor counts the energy of the whole batch at +r.

    W_ij times Σ_k d_k instead of d_i, as Eq. 14 literally reads. Until +r it is ``mmhe``.

    Source: Li et al. 2024, Eq. 14 (erratum E8).
    Use it only to see what the misprint does.
    Relations: ``mmhe`` counts the shared term once.

    >>> x = torch.eye(4)
    >>> round(PrintedModifiedMHE(margin=2.0)(x, x).item(), 6)
    -140.0
    """

    source = "Li et al. 2024, misprint E8"

    def combine(self, statistics: Statistics) -> Statistics:
        terms = super().combine(statistics)
        if self.stage != "+r":
            return terms
        gate = statistics["gate"]
        energy = gate.sum() * super().combine({**statistics, "gate": torch.ones_like(gate)})["energy"]
        return {"loss": terms["alignment"] + energy, "alignment": terms["alignment"], "energy": energy}


@register("printed/mbarlow")
class PrintedModifiedBarlow(ModifiedBarlow):
    """Modified Barlow Twins with weights of h_i·h'_j at every stage.

    original, +gd: W_ij = 2ν s_ij/N² as Eq. 10 has it, s for b. From +w on it is ``mbarlow``.

    Source: Li et al. 2024, Eq. 10 (erratum E5).
    Use it only to see what the misprint does.
    Relations: ``mbarlow`` has the weights h'_i·h'_j of Barlow Twins at first.

    >>> x = torch.eye(4)
    >>> round(PrintedModifiedBarlow(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "Li et al. 2024, misprint E5"

    @property
    def weigh_by(self) -> str:
        return "cross"


@register("printed/mmhs")
class PrintedModifiedMHS(ModifiedMHS):
    """Modified MHS whose pull has the farthest distance at +r.

    P_i = r/max_j ‖x_i-x_j‖ at +r, as Eq. 15 has it. Until then it is ``mmhs``.

    Source: Li et al. 2024, Eq. 15 (erratum E7: max for min).
    Use it only to see what the misprint does.
    Relations: ``mmhs`` has the nearest distance in the pull too.

    >>> x = torch.eye(4)
    >>> round(PrintedModifiedMHS(margin=2.0)(x, x).item(), 6)
    -9.899495
    """

    source = "Li et al. 2024, misprint E7"

    def push(self, anchors: Anchors) -> Statistics:
        farthest = masked_min(self.matrix(anchors, "same").detach(), self.mask(anchors, "same"))
        return {**super().push(anchors), "pull": (2 - 2 * farthest).clamp_min(COINCIDENT).rsqrt()}

    def combine(self, statistics: Statistics) -> Statistics:
        terms = super().combine(statistics)
        if self.stage != "+r":
            return terms
        alignment = -statistics["gate"] * self.ratio * statistics["pull"].detach() * statistics["positive"]
        return {"loss": alignment + terms["energy"], "alignment": alignment, "energy": terms["energy"]}
