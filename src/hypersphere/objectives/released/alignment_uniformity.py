"""Alignment and uniformity as the code of Nie et al. 2023 has them."""

from __future__ import annotations

from hypersphere.engine import Statistics
from hypersphere.objectives.alignment_uniformity import AlignUniform
from hypersphere.objectives.logsumexp import energy_of_all
from hypersphere.objectives.registry import register


@register("released/align_uniform")
class ReleasedAlignUniform(AlignUniform):
    """Alignment and uniformity with 2t added to the logarithm: another value, the same gradient.

    L = (1-λ) mean_i ‖h_i-h'_i‖^α + λ (2t + log mean_{pairs} e^{-t‖·‖²}), λ = ``weight``.

    Source: the code of Nie et al. 2023 (with pairs "same").
    Use it only to compare with values of that code.
    Relations: ``align_uniform`` is Eq. 2 to 4.

    >>> import torch
    >>> x = torch.eye(4)
    >>> round(ReleasedAlignUniform(weight=1.0)(x, x).item(), 6)
    0.0
    """

    source = "code of Nie et al. 2023"

    def combine(self, statistics: Statistics) -> Statistics:
        alignment = super().combine(statistics)["alignment"]
        uniformity = self.weight * energy_of_all(statistics["potential"], statistics["pairs"], 0.0)
        return {"loss": alignment + uniformity, "alignment": alignment, "uniformity": uniformity}
