"""Kernel contrastive learning as the code of Koromilas et al. 2024 has it."""

from __future__ import annotations

from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.objectives.kernel import KCL
from hypersphere.objectives.registry import register


@register("released/kcl")
class ReleasedKCL(KCL):
    """Kernel contrastive learning whose logarithmic kernel aligns twice as hard.

    With kernel log the alignment is -log(1+tq), the energy half of that; all other kernels are those of ``kcl``.

    Source: the code of Koromilas et al. 2024.
    Use it only to compare with numbers of that code; its defaults are the preset dhel-kcl.
    Relations: half of its value at γ is ``kcl`` with the logarithmic kernel at γ/2.

    >>> import torch
    >>> x = torch.eye(4, dtype=torch.float64)
    >>> paper, released = (loss(kernel="log", gamma=0.0)(x, -x).item() for loss in (KCL, ReleasedKCL))
    >>> round(released / paper, 6)
    2.0
    """

    source = "code of Koromilas et al. 2024"

    def _of_potential(self, positive: Tensor, potential: Tensor) -> Statistics:
        terms = super()._of_potential(positive, potential)
        if self.kernel != "log":
            return terms
        alignment = 2 * terms["alignment"]
        return {"loss": alignment + terms["energy"], "alignment": alignment, "energy": terms["energy"]}
