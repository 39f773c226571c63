"""Lemma 1 of Li et al. 2024 against direct geometry."""

from __future__ import annotations

import torch

from hypersphere.anatomy import ratio_interval
from hypersphere.geometry import tangent, unit


def test_lemma_one_against_direct_geometry() -> None:
    """A step of the anchor in its tangent plane, and the distance to the positive's projection before and after."""
    generator = torch.Generator().manual_seed(0)
    h, y, n = (unit(torch.randn(4000, 4, generator=generator, dtype=torch.float64)) for _ in range(3))
    p, q = tangent(y, h), tangent(n, h)
    for step in (0.05, 0.3, 1.0, 3.0):
        low, high = ratio_interval(h, y, n, step)
        for ratio in (-1.0, 0.0, 0.5, 1.0, 1.5, 3.0, 10.0):
            moved = step * (ratio * p - q)
            closer = (p - moved).norm(dim=1) < p.norm(dim=1)
            inside = (low < ratio) & (ratio < high)
            assert torch.equal(closer, inside)
