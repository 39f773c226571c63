"""Lemma 1 of Li et al. 2024: which ratios bring an anchor closer to its positive."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.geometry import tangent


def ratio_interval(anchor: Tensor, positive: Tensor, negative: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """Both ends of the open interval of ratios r for which h + step (r y - n) is closer to y than h is, in the
    tangent plane at h; NaN where no ratio does it. Rows are unit vectors (B, D).

    1/λ + k cos α ∓ sqrt(1/λ² - k² sin² α), k = sin θ_n / sin θ_p, α the angle between the tangential parts. The paper
    gives the lower end only; there is no solution where λ k sin α > 1.

    >>> h, y = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.6, 0.8, 0.0]])
    >>> low, high = ratio_interval(h, y, torch.tensor([[0.0, 0.0, 1.0]]), step=0.1)
    >>> round(low.item(), 4), round(high.item(), 4)
    (0.0784, 19.9216)
    """
    p, n = tangent(positive, anchor), tangent(negative, anchor)
    length = torch.linalg.vector_norm(p, dim=1)
    k = torch.linalg.vector_norm(n, dim=1) / length
    along = (p * n).sum(dim=1) / length**2  # k cos α
    across = (k**2 - along**2).clamp_min(0)  # k² sin² α
    root = torch.sqrt(1 / step**2 - across)  # NaN where it is not real
    # 1/λ - root, written without cancellation
    return along + across / (1 / step + root), along + 1 / step + root
