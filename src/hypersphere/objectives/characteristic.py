"""Distance of a sample's characteristic function from that of a law, on each of several directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypersphere.torch_internals import plain_operations

CHUNK = 2**15  # projections in a chunk of rows: its powers stay in the cache


@dataclass(frozen=True)
class Grid:
    """Knots t_k = k · spacing, k = 0 … T-1, with the weight of each in the integral and the law's value there."""

    spacing: float
    weights: Tensor  # (T,) float64
    law: Tensor  # (T,) float64

    @staticmethod
    def knots(num_knots: int, t_max: float) -> Tensor:
        return torch.arange(num_knots, dtype=torch.float64) * (t_max / (num_knots - 1))

    @classmethod
    def trapezoid(cls, knots: Tensor, law: Tensor) -> Grid:
        """Weights of ∫ … e^{-t²/2} dt over the whole line, for an even integrand that is cut off after the last
        knot."""
        spacing = knots[-1].item() / (len(knots) - 1)
        weights = torch.full_like(knots, 2 * spacing)
        weights[[0, -1]] = spacing
        return cls(spacing, weights * (-knots.square() / 2).exp(), law)

    @property
    def t(self) -> Tensor:
        return torch.arange(len(self.weights), dtype=torch.float64) * self.spacing


def characteristic_distance(z: Tensor, directions: Tensor, grid: Grid) -> Tensor:
    """Mean over the columns a of N Σ_k weight_k |mean_n e^{i t_k a·z_n} - law_k|², z (N, D), directions (D, K).

    Rows are visited in chunks, twice: for the T·K means, and for the gradient. Powers of e^{i·spacing·a·z} take the
    place of T cosines and sines.
    """
    if plain_operations():
        return _plain(z, directions, grid)
    distance: Tensor = _Distance.apply(z, directions, grid)  # type: ignore[no-untyped-call]
    return distance


def _plain(z: Tensor, directions: Tensor, grid: Grid) -> Tensor:
    """The same in torch's own operations, which can be differentiated again; holds N·K·T numbers."""
    weights, law, t = (each.to(z) for each in (grid.weights, grid.law, grid.t))
    angles = (z @ directions).unsqueeze(-1) * t
    squares = (angles.cos().mean(dim=0) - law).square() + angles.sin().mean(dim=0).square()  # (K, T)
    return len(z) * (squares @ weights).mean()


def _rotations(z: Tensor, directions: Tensor, spacing: float) -> Iterator[tuple[slice, Tensor]]:
    """e^{i·spacing·a·z_n} (B, K) of each chunk of rows."""
    rows = max(1, CHUNK // directions.shape[1])
    columns = directions * spacing
    for start in range(0, len(z), rows):
        here = slice(start, start + rows)
        angles = z[here] @ columns
        yield here, torch.complex(angles.cos(), angles.sin())


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, directions: Tensor, grid: Grid) -> Tensor:
        size, last = len(z), len(grid.weights) - 1
        sums = torch.zeros(last, directions.shape[1], dtype=torch.complex128, device=z.device)
        for _, rotation in _rotations(z, directions, grid.spacing):
            power = rotation.clone()
            for k in range(last):
                sums[k] += power.sum(dim=0)
                if k + 1 < last:
                    power *= rotation
        weights, law, t = (each[1:, None].to(z.device) for each in (grid.weights, grid.law, grid.t))
        gaps = sums / size - law  # at t = 0 both are 1
        ctx.save_for_backward(z, directions)
        ctx.grid, ctx.coefficients = grid, (2 / directions.shape[1]) * weights * t * gaps.conj()
        return (size * (weights * (gaps.real.square() + gaps.imag.square())).sum(dim=0).mean()).to(z.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        z, directions = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated
            (grad,) = torch.autograd.grad(_plain(z, directions, ctx.grid), z, create_graph=True)
            return upstream * grad, None, None
        grad = torch.empty_like(z)
        coefficients = ctx.coefficients.to(torch.promote_types(z.dtype, torch.complex64))
        for here, rotation in _rotations(z, directions, ctx.grid.spacing):
            # Σ_k weight_k t_k Im(-conj(gap_k) e^{i t_k x}), by Horner's rule.
            total = coefficients[-1] * rotation
            for k in range(len(coefficients) - 2, -1, -1):
                total += coefficients[k]
                total *= rotation
            torch.mm(total.imag.neg(), directions.T, out=grad[here])
        return upstream * grad, None, None
