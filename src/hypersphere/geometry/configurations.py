"""Point sets on the sphere whose energy is known to be the smallest possible."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.geometry.unit import unit


def simplex(count: int, dim: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """``count`` unit vectors in R^dim, every two at cosine -1/(count-1); needs count <= dim + 1.

    >>> (simplex(3, 2) @ simplex(3, 2).T).round(decimals=6).tolist()[0]
    [1.0, -0.5, -0.5]
    """
    if not 2 <= count <= dim + 1:
        raise ValueError(f"a regular simplex in {dim} dimensions has 2 to {dim + 1} vertices, not {count}")
    centred = torch.eye(count, dtype=dtype) - 1 / count
    vertices = torch.linalg.svd(centred).U[:, : count - 1] * (count / (count - 1)) ** 0.5
    return torch.nn.functional.pad(vertices, (0, dim - count + 1))


def cross_polytope(dim: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """The 2·dim vectors ±e_k: the best way to spread 2·dim points (Cohn and Kumar 2007).

    >>> cross_polytope(2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [-1.0, -0.0], [-0.0, -1.0]]
    """
    basis = torch.eye(dim, dtype=dtype)
    return torch.cat([basis, -basis])


def uniform_points(count: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """``count`` points drawn uniformly from the sphere in R^dim.

    >>> uniform_points(4, 3).norm(dim=1).round(decimals=6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(count, dim, generator=generator, dtype=dtype)
    return unit(points)
