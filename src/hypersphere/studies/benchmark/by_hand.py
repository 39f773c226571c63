"""InfoNCE as one would write it for speed and for nothing else: what the engine's generality may cost."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK_ROWS, STRIP_ROWS = 2048, 64


class InfoNCEByHand:
    """The value and both gradients by formula, block by block, into memory that is there already.

    For unit rows x, y and p_ij = exp(x_i·y_j/t) / Σ_k exp(x_i·y_k/t): ∂L/∂x_i = (Σ_j p_ij y_j - y_i) / (N t) and
    ∂L/∂y_j = (Σ_i p_ij x_i - x_j) / (N t). Nothing guards it against temperatures that are too low for a float32.
    """

    def __init__(self, size: int, temperature: float = 0.05) -> None:
        self.size, self.scale = size, 1 / temperature
        self._powers = torch.empty(min(BLOCK_ROWS, size), size)

    @torch.no_grad()
    def __call__(self, z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, and what moves z1 and z2 (N, D)."""
        inverse = [torch.linalg.vector_norm(z, dim=1, keepdim=True).reciprocal() for z in (z1, z2)]
        x, y = z1 * inverse[0], z2 * inverse[1]
        to_x, to_y = torch.empty_like(x), torch.empty_like(y)
        weight = self.scale / self.size
        sums = x.new_empty(self.size, 1)
        for start in range(0, self.size, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, self.size))
            powers = self._powers[: rows.stop - rows.start]
            torch.addmm(powers, x[rows], y.T, beta=0, alpha=self.scale, out=powers)
            for first in range(0, len(powers), STRIP_ROWS):
                strip = slice(first, first + STRIP_ROWS)
                torch.sum(powers[strip].exp_(), dim=1, keepdim=True, out=sums[rows][strip])
            share = weight / sums[rows]
            to_x[rows].addmm_(powers, y, beta=0).mul_(share)
            to_y.addmm_(powers.T, x[rows] * share, beta=int(start > 0))
        for gradient, own, other, factor in ((to_x, x, y, inverse[0]), (to_y, y, x, inverse[1])):
            for first in range(0, self.size, 256):
                part = slice(first, first + 256)
                g = gradient[part].sub_(other[part], alpha=weight)
                g.addcmul_((g * own[part]).sum(dim=1, keepdim=True), own[part], value=-1).mul_(factor[part])
        return sums.log().mean() - self.scale * (x * y).sum() / self.size, to_x, to_y
