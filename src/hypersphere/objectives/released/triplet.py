"""The triplets of Nie et al. 2023 as their code has them: along the wrong axis, the diagonal blanked."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from torch import Tensor

from hypersphere.engine import Inputs, Statistics
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.hardest import hinge
from hypersphere.objectives.registry import register
from hypersphere.objectives.triplet import MAT, MET, MPT, NearestTriplet


class ReleasedTriplet(NearestTriplet):
    """Rows of the second view are the anchors, and the blanked diagonal takes part as a cosine of 0."""

    blanked: ClassVar[bool] = True

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        # By name, so that ``self`` may be mixup's view of this objective.
        return PairwiseObjective.evaluate(self, inputs.exchanged(), terms)

    @property
    def only_similarities(self) -> bool:
        return False  # the views are exchanged

    def from_hardest(self, positive: Tensor, hardest: Any) -> Statistics:
        distance = self.distance(hardest.clamp_min(0) if self.blanked else hardest)
        return hinge(self.distance(positive), self.margin - distance, hardest > -inf)


@register("released/mpt")
class ReleasedMPT(ReleasedTriplet, MPT):
    """MPT as its authors' code computes it.

    L_i = max(0, m - s_ii + max(0, max_{j≠i} s_ji)), mean over the rows of the second view.

    Source: the code of Nie et al. 2023, which takes the maximum over the wrong axis and blanks the diagonal with 0.
    Use it only to compare with numbers of that code.
    Relations: ``mpt`` is Eq. 13.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(ReleasedMPT(margin=1.5)(x, -x).item(), 6)
    2.5
    """

    source = "code of Nie et al. 2023"


@register("released/met")
class ReleasedMET(ReleasedTriplet, MET):
    """MET as its authors' code computes it.

    L_i = max(0, ‖h_i-h'_i‖ - min_{j≠i} ‖h_j-h'_i‖ + m), mean over the rows of the second view.

    Source: the code of Nie et al. 2023, which takes the minimum over the wrong axis.
    Use it only to compare with numbers of that code.
    Relations: ``met`` is Eq. 14.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(ReleasedMET()(x, x.roll(1, 0)).item(), 6)
    1.864213
    """

    source = "code of Nie et al. 2023"
    blanked = False  # with a distance of 2, which is never the smallest


@register("released/mat")
class ReleasedMAT(ReleasedTriplet, MAT):
    """MAT as its authors' code computes it.

    L_i = max(0, θ_ii' - min(π/2, min_{j≠i} θ_ji') + m), mean over the rows of the second view.

    Source: the code of Nie et al. 2023, which takes the minimum over the wrong axis and blanks the diagonal with π/2.
    Use it only to compare with numbers of that code.
    Relations: ``mat`` is Eq. 15.

    >>> import torch
    >>> x = torch.eye(4, dtype=torch.float64)
    >>> round(ReleasedMAT(margin=2.0)(x, x).item(), 6)
    0.429204
    """

    source = "code of Nie et al. 2023"
