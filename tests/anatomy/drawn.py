"""Unit rows that several anatomies are of."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.geometry import unit


def rows(count: int, seed: int) -> Tensor:
    return unit(torch.randn(count, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


X = rows(12, 0)
Y = unit(X + 0.4 * rows(12, 1))
EXTRA = rows(5, 2)
LABELS = torch.tensor([0, 0, 1, 1, 2, 2, -1, -1, 3, 3, 4, 4])
