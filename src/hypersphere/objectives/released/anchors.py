"""CLOA as the code of Li & Pimentel-Alarcón 2024 has it."""

from __future__ import annotations

from hypersphere.objectives.anchors import CLOA
from hypersphere.objectives.registry import register


@register("released/cloa")
class ReleasedCLOA(CLOA):
    """CLOA whose pull is -cos(z, c_y): another value, the same gradient.

    L = L_base - weight · mean over labelled rows and both views of cos(z, c_y).

    Source: the code of Li & Pimentel-Alarcón 2024, which leaves out the 1 of Eq. 2.
    Use it only to compare with values of that code.
    Relations: ``cloa`` is Eq. 2.

    >>> import torch
    >>> objective = ReleasedCLOA(num_classes=2, dim=4)
    >>> x = objective.anchors.repeat(2, 1)
    >>> round(objective.terms(x, x, torch.tensor([0, 1, -1, 1]))["anchors"].item(), 6)
    -1.0
    """

    source = "code of Li & Pimentel-Alarcón 2024"

    def build(self) -> None:
        super().build()
        self.regression.offset = 0.0
