"""Synthetic data small enough to look at."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.geometry import unit
from hypersphere.limits import need_memory
from hypersphere.messages import quoted


def three_lines(points: int = 100, noise: float = 0.05, seed: int = 0, draw: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """CLOA's data: three noisy lines through the origin of R³; the positive of a point is its negation.

    A point of class k is x = t·u_k + noise·ε with t uniform in [-1, 1] and a random direction u_k; its positive is
    -x + noise·ε'. Returns x (3·points, 3), the positives (3·points, 3) and the classes (3·points,). ``seed`` decides
    the directions; another ``draw`` gives other points on the same lines.

    Source: Li & Pimentel-Alarcón 2024, Table 2. The paper gives neither count nor noise: the defaults are ours.

    >>> x, positives, labels = three_lines(points=4, noise=0.0, seed=1)
    >>> torch.equal(positives, -x), labels.bincount().tolist()
    (True, [4, 4, 4])
    """
    if points < 1:
        raise ValueError(f"points must be a whole number of at least 1, not {points!r}")
    if not 0 <= noise < float("inf"):
        raise ValueError(f"noise must be a number of at least 0, not {noise!r}")
    need_memory(3 * points * 3 * 4 * 3, f"three lines of {quoted(points)} points")
    generator = torch.Generator().manual_seed(seed)
    directions = unit(torch.randn(3, 3, generator=generator))
    if draw:
        generator.manual_seed(1_000_003 * draw + seed)
    labels = torch.arange(3).repeat_interleave(points)
    places = 2 * torch.rand(3 * points, 1, generator=generator) - 1
    x = places * directions[labels]
    x = x + noise * torch.randn(x.shape, generator=generator)
    return x, negated(x, noise, generator), labels


def negated(x: Tensor, noise: float, generator: torch.Generator | None = None) -> Tensor:
    """A fresh positive of every row: -x + noise·ε. Draws from torch's own generator unless one is given."""
    return -x + noise * torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
