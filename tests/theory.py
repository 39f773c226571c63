"""What several tests of theory share: gradients in closed form, batches that hypothesis draws, points on a circle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

import hypersphere as hs
from hypersphere.objectives import Objective
from hypersphere.testing.example import views

Params = dict[str, Any]


def per_anchor(name: str, z1: Tensor, z2: Tensor, **params: Any) -> Tensor:
    return hs.create_objective(name, reduction="none", **params)(z1, z2)


def gradients(objective: Objective, *z: Tensor, part: str = "loss") -> list[Tensor]:
    leaves = [each.clone().requires_grad_() for each in z]
    grads = torch.autograd.grad(objective.terms(*leaves)[part], leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if s is None else s for leaf, s in zip(leaves, grads, strict=True)]


def loss_gradients(objective: Objective, *z: Tensor, labels: Tensor | None = None) -> list[Tensor]:
    """Of the loss as training takes it, without its named terms."""
    leaves = [each.clone().requires_grad_() for each in z]
    grads = torch.autograd.grad(objective(*leaves, labels), leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if s is None else s for leaf, s in zip(leaves, grads, strict=True)]


def without_diagonal(matrix: Tensor, fill: float = 0.0) -> Tensor:
    return matrix.masked_fill(torch.eye(len(matrix), dtype=torch.bool), fill)


def row_softmax(similarities: Tensor, temperature: float) -> Tensor:
    """Softmax of every row over the columns j ≠ i, 0 at j = i."""
    return torch.softmax(without_diagonal(similarities, -math.inf) / temperature, dim=1)


def barlow_gradient(h: Tensor, g: Tensor, weights: Tensor | None = None) -> Tensor:
    """(2/N)( -A h'_i + (ν/N) Σ_{j≠i} (h'_i·h'_j) h_j ), A = I - (1-ν) diag C."""
    size, diagonal = len(h), (h * g).mean(dim=0)
    weights = g @ g.T if weights is None else weights
    return 2 / size * (-(1 - (1 - 30) * diagonal) * g + 30 / size * without_diagonal(weights) @ h)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two views of 2 to 9 instances; at times the positives are exchanged, so that they are bad ones."""
    z1, z2 = views(draw(st.integers(2, 9)), draw(st.integers(2, 6)), draw(st.integers(0, 10**6)))
    return z1, z2.roll(draw(st.integers(0, 1)), 0)


TEMPERATURES = st.floats(0.02, 2.0)
SLACK = 1e-10


# dK/dq, first of the kernel of alignment, then of that of the energy.
KERNEL_SLOPES: list[tuple[Params, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
    ({"kernel": "gaussian"}, lambda q: -2 * torch.exp(-2 * q), lambda q: -2 * torch.exp(-2 * q)),
    ({"kernel": "log"}, lambda q: -1 / (1 + 2 * q), lambda q: -1 / (1 + 2 * q)),
    ({"kernel": "imq"}, lambda q: -((4 + q) ** -1.5), lambda q: -((4 + q) ** -1.5)),
    ({"kernel": "riesz", "s": -1.0}, lambda q: -0.5 * q**-0.5, lambda q: -0.5 * q**-0.5),
    ({"kernel": "gaussian_riesz", "s": 1.0}, lambda q: -2 * torch.exp(-2 * q), lambda q: -0.5 * q**-1.5),
]


def own_gradient(name: str, params: Params, anchor: Tensor, positive: Tensor, keys: Tensor) -> Tensor:
    """∂L_i/∂h_i as the papers write it, from one anchor (D,), its positive (D,) and its negatives (N-1, D)."""
    c, s = anchor @ positive, keys @ anchor
    top, hardest = s.max(), keys[s.argmax()]
    tau, margin = params.get("temperature", 1.0), params.get("margin", 0.0)
    share = torch.softmax(s / tau, dim=0)
    pull = (share @ keys - positive) / tau
    odds = torch.logsumexp(s / tau, dim=0)
    match name:
        case "infonce":
            return torch.exp(odds - torch.logaddexp(odds, c / tau)) * pull
        case "dcl":
            return pull
        case "dcl_plus":
            return (odds > c / tau) * pull
        case "mpt":
            return (c - top < margin) * (hardest - positive)
        case "met":
            near, own = (2 - 2 * top).sqrt(), (2 - 2 * c).sqrt()
            return (near - own < margin) * (hardest / near - positive / own)
        case "mat":
            near, own = top.arccos(), c.arccos()
            return (near - own < margin) * (hardest / near.sin() - positive / own.sin())
        case "arccon":
            theta = c.arccos()
            shifted = (theta + params["angle"]).cos() / tau
            ratio = (theta + params["angle"]).sin() / theta.sin()
            return torch.exp(odds - torch.logaddexp(odds, shifted)) * (share @ keys - ratio * positive) / tau
    raise ValueError(name)


# On a circle all distances follow from angles, without a cosine between. Gaps of 1e-3 and nearly so on either side of
# a point, where cosines of float32 cannot tell which is the nearer one.
NEAR = 1e-3


def near_angles(seed: int) -> Tensor:
    """24 of them (float64), in threes nearly equidistant."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.arange(8, dtype=torch.float64) + 0.3 * torch.rand(8, generator=generator, dtype=torch.float64)
    gaps = NEAR * (1 + 0.02 * torch.rand(8, 2, generator=generator, dtype=torch.float64))
    phi = (centres * 2 * math.pi / 8).unsqueeze(1)
    return torch.cat([phi, phi + gaps[:, :1], phi - gaps[:, 1:]], dim=1).flatten()


def on_circle(phi: Tensor) -> Tensor:
    return torch.stack([phi.cos(), phi.sin()], dim=1).float()
