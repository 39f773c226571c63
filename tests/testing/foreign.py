"""Losses that are not ours: a module with weights, a buffer and an axis called dim, and a function."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import hypersphere as hs


class Foreign(nn.Module):
    """InfoNCE of projected rows, its keys turned by a fixed matrix."""

    def __init__(self, dim: int = 1, width: int = 4) -> None:
        super().__init__()
        self.dim = dim  # an axis
        self.weight = nn.Linear(width, width, bias=False)
        self.register_buffer("turn", torch.eye(width).roll(1, 0))

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        x, y = (normalize(self.weight(z), dim=self.dim, eps=1e-4) for z in (z1, z2))
        return -torch.log_softmax(x @ (y @ self.turn).T, dim=1).diagonal().mean()


def plain(z1: Tensor, z2: Tensor) -> Tensor:
    return -(normalize(z1.float(), eps=1e-4) * normalize(z2.float(), eps=1e-4)).sum(1).mean()


class Written(hs.objectives.functions.FunctionObjective):
    """``plain`` as a name such as mine.py:plain makes it an objective."""

    made_from = staticmethod(plain)
