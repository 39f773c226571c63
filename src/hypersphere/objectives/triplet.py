"""Triplet objectives: the hardest negative only, and nothing once it is a margin away."""

from __future__ import annotations

from math import inf, pi
from typing import Any

from torch import Tensor

from hypersphere.engine import Statistics, masked_min
from hypersphere.geometry import angle, chord
from hypersphere.objectives.hardest import HardestObjective, hinge
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import Number, anything, number


def dot_distance(cos: Tensor) -> Tensor:
    """1 - cos."""
    return 1 - cos


# Distances by name, each falling as the cosine rises, with the margin the papers use.
DISTANCES = {"dot": (dot_distance, 0.23), "euclidean": (chord, 0.45), "angle": (angle, 0.15 * pi)}


@register("triplet")
class Triplet(HardestObjective):
    """Triplet on any distance with the nearest negative.

    L_i = max(0, d(h_i, h'_i) - min_{j≠i} d(h_i, h'_j) + m), mean over anchors. distance: "dot" (1 - cos),
    "euclidean", "angle", or a function of the cosine; the margin defaults to .23, .45, .15π, a function needs one.

    Source: Nie et al. 2023, Appendix C.6 (the generic form).
    Use it to try a distance of your own; the named ones are ``mpt``, ``met`` and ``mat``.
    Relations: the gate of ``paradigm``; ties give one of the valid subgradients.

    >>> import torch
    >>> x = torch.eye(4)
    >>> Triplet(distance="dot")
    Triplet(distance='dot', margin=0.23)
    >>> round(Triplet(distance=lambda cos: (1 - cos) ** 2, margin=1.5)(x, x).item(), 6)
    0.5
    """

    source = "Nie et al. 2023, C.6"
    distance: Any = anything(default="euclidean")
    margin: Any = anything(default=None)

    def check(self) -> None:
        if isinstance(self.distance, str) and self.distance in DISTANCES:
            usual: float | None = DISTANCES[self.distance][1]
        elif callable(self.distance):
            usual = None
        else:
            raise ValueError(
                f"{self.name}'s distance must be {', '.join(DISTANCES)} or a function of the cosine, "
                f"not {self.distance!r}"
            )
        if self.margin is None and usual is None:
            raise ValueError(f"{self.name} needs a margin for a distance of your own")
        self.margin = Number(usual, at_least=0).clean(usual if self.margin is None else self.margin, "triplet's margin")

    @property
    def monotone(self) -> bool:
        return not callable(self.distance)

    def from_hardest(self, positive: Tensor, hardest: Any) -> Statistics:
        distance = DISTANCES[self.distance][0]
        return hinge(distance(positive), self.margin - distance(hardest), hardest > -inf)

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Statistics:
        nearest = masked_min(self.distance(negatives), mask)
        return hinge(self.distance(positive), self.margin - nearest, nearest < inf)


class NearestTriplet(HardestObjective):
    """A triplet with a distance that falls as the cosine rises."""

    def distance(self, cos: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define distance")

    margin: float = number(default=0.0, at_least=0)

    def from_hardest(self, positive: Tensor, hardest: Any) -> Statistics:
        return hinge(self.distance(positive), self.margin - self.distance(hardest), hardest > -inf)


@register("mpt")
class MPT(NearestTriplet):
    """Triplet on the dot product with the hardest negative.

    L_i = max(0, m - s_ii + max_{j≠i} s_ij), mean over anchors.

    Source: Nie et al. 2023, Eq. 13; best margin .23 for BERT-base, grid .20 to .35.
    Use it as the simplest loss with gradient dissipation: an anchor whose margin holds gets no gradient at all.
    Relations: ``infonce`` ≤ log 2 + ``dcl_plus`` ≤ log 2 + ``mpt``/τ for m = τ log(N-1), per anchor.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(MPT(margin=1.5)(x, x).item(), 6)
    0.5
    """

    source = "Nie et al. 2023, Eq. 13"
    margin: float = number(default=0.23, at_least=0, tune=(0.05, 1.0))

    def distance(self, cos: Tensor) -> Tensor:
        return -cos


@register("met")
class MET(NearestTriplet):
    """Triplet on the Euclidean distance with the nearest negative.

    L_i = max(0, ‖h_i-h'_i‖ - min_{j≠i} ‖h_i-h'_j‖ + m), mean over anchors.

    Source: Nie et al. 2023, section 4.2, Eq. 14, its gradient in Eq. 21; best margins .40 to .50.
    Use it where a contrastive loss overfits; its ratio d_neg/d_pos > 1 pulls positives harder than ``mpt``.
    Relations: ``mpt`` on the dot product, ``mat`` on the angle; euclidean three times in ``paradigm``.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(MET()(x, x.roll(1, 0)).item(), 6)
    1.864213
    """

    source = "Nie et al. 2023, Eq. 14"
    margin: float = number(default=0.45, at_least=0, tune=(0.05, 1.2))

    def distance(self, cos: Tensor) -> Tensor:
        return chord(cos)


@register("mat")
class MAT(NearestTriplet):
    """Triplet on the angle with the nearest negative.

    L_i = max(0, θ_ii' - min_{j≠i} θ_ij' + m), mean over anchors.

    Source: Nie et al. 2023, section 4.2, Eq. 15, its gradient in Eq. 22; margins of .10π to .20π.
    Use it for a gradient of constant length: both parts have norm 1 while the anchor is active.
    Relations: ``mpt`` on the dot product, ``met`` on the chord; angle three times in ``paradigm``.

    >>> import torch
    >>> x = torch.eye(4, dtype=torch.float64)
    >>> round(MAT(margin=2.0)(x, x).item(), 6)
    0.429204
    """

    source = "Nie et al. 2023, Eq. 15"
    margin: float = number(default=0.15 * pi, at_least=0, tune=(0.05, 1.5))

    def distance(self, cos: Tensor) -> Tensor:
        return angle(cos)
