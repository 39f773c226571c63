"""A peer's losses: right, scaled, or with the common mistakes on several processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import hypersphere as hs


def scaled(factor: float) -> Any:
    """InfoNCE with the gradient of a loss ``factor`` times as large, and the same value."""
    ours = hs.create_objective("infonce", temperature=0.05, gather=True)

    def loss(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        value = ours(z1, z2)
        return value.detach() + factor * (value - value.detach())

    return loss


def own_slice() -> Any:
    """The whole loss on every process, in which only the own rows carry a gradient: the common mistake."""

    def loss(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        if dist.is_initialized():
            z1, z2 = (torch.cat(_gathered(z)) for z in (z1, z2))
        objective: Any = hs.create_objective("infonce", temperature=0.05)
        value: Tensor = objective(z1, z2)
        return value

    return loss


def _gathered(z: Tensor) -> list[Tensor]:
    rows = [torch.empty_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, z.detach())
    rows[dist.get_rank()] = z
    return rows


def own_rows() -> Any:
    """Each process contrasts its own rows alone."""
    objective: Any = hs.create_objective("infonce", temperature=0.05)
    return lambda z1, z2, labels: objective(z1, z2)
