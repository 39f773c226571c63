"""SPHERE-JEPA's Kullback-Leibler test as the paper prints it."""

from __future__ import annotations

import math

from hypersphere.engine import Anchors, Statistics
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number
from hypersphere.objectives.sphere_jepa import SphereJEPA


@register("printed/sphere_jepa")
class PrintedSphereJEPA(SphereJEPA):
    """SPHERE-JEPA with the test kl divided by the logarithm of the sphere's area.

    The test is 1 - L/log|S^{D-1}|, L that of ``sphere_jepa`` with test="kl". Up to D = 18 the area |S^{D-1}| is above 1
    and the printed test falls as rows collapse; such rows are refused.

    Source: Nicollier et al. 2026 (erratum E12). ``weight`` and ``time`` are those of its kl.
    Use it only to compare with numbers of the paper.
    Relations: ``sphere_jepa`` with test="kl" has the gradient of this test times -log|S^{D-1}|.

    >>> import torch
    >>> x = torch.ones(4, 32)  # collapsed
    >>> round(PrintedSphereJEPA()(x, x).item(), 6)
    0.5
    """

    source = "Nicollier et al. 2026, misprint E12"
    test: str = choice("kl", default="kl")
    weight: float = number(default=0.5, at_least=0, at_most=1)
    time: float = number(default=2.0, above=0)

    def block(self, anchors: Anchors) -> Statistics:
        terms, area = super().block(anchors), log_area(anchors.rows.shape[1])
        if area >= 0:
            raise ValueError(
                "printed/sphere_jepa rewards collapse up to 18 dimensions, where the sphere's area is above 1; these "
                f"rows have {anchors.rows.shape[1]}: take sphere_jepa with test='kl'"
            )
        regulariser = self.weight - terms["regulariser"] / area
        return {**terms, "loss": terms["prediction"] + regulariser, "regulariser": regulariser}


def log_area(dim: int) -> float:
    """log |S^{dim-1}|, the area of the sphere of unit vectors.

    >>> round(math.exp(log_area(3)) / math.pi, 6)
    4.0
    """
    return math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
