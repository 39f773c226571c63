"""The hinge that ends a gradient once an anchor is good enough."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine import Statistics


def hinge(alignment: Tensor, energy: Tensor) -> Statistics:
    """max(0, alignment + energy), and the two parts where it is not 0."""
    loss = torch.relu(alignment + energy)
    active = loss.detach() > 0
    return {"loss": loss, "alignment": torch.where(active, alignment, 0), "energy": torch.where(active, energy, 0)}
