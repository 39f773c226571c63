"""Embeddings that several tests diagnose."""

from __future__ import annotations

import torch
from torch import Tensor


def noise(count: int = 400, dim: int = 32, seed: int = 0) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def two_views(count: int = 400, dim: int = 32) -> tuple[Tensor, Tensor]:
    z = noise(count, dim) + 0.3
    return z * 3, z + 0.4 * noise(count, dim, seed=1)


def cone(count: int = 400, dim: int = 32) -> Tensor:
    return noise(count, dim) + 8 * torch.eye(dim)[0]
