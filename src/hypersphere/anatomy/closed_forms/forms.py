"""Definition and registry of closed forms."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import NamedTuple

import torch
from torch import Tensor


class Components(NamedTuple):
    """The three components of an anchor's gradient, GD Σ_j W_j (n_j - R h')."""

    dissipation: Tensor  # (B,)
    weight: Tensor  # (B, n)
    ratio: Tensor  # (B,)


Form = Callable[..., Components]
_FORMS: dict[str, Form] = {}
_WITHOUT = {
    "vicreg": "its hinge and its off-diagonal penalty are of single features; Li's surrogate for it is "
    "'vicreg_surrogate'",
    "cloa": "its anchors are directions of their own, beside the angles of its base",
    "mixup": "a mixed negative is no vector of the batch; take that of its base",
    "hyperbolic": "it reads the lengths of raw rows",
}


def closed_form(name: str) -> Form:
    """The closed form of an objective: a function of angles and the objective's own parameters.

    It takes the angles of the positives (B,) and of the negatives (B, n), for B anchors in a batch of N = n + 1, and
    returns GD (B,), W (B, n), R (B,). Any number of dimensions may precede B.

    >>> gd, weight, ratio = closed_form("mpt")(torch.tensor([0.3]), torch.tensor([[0.4, 1.5]]))
    >>> gd.tolist(), weight.tolist(), ratio.tolist()
    ([1.0], [[1.0, 0.0]], [1.0])
    """
    if name in _WITHOUT:
        raise ValueError(f"there is no closed form for {name!r} in angles alone: {_WITHOUT[name]}")
    if name not in _FORMS:
        raise ValueError(f"there is no closed form for {name!r} (there are {', '.join(sorted(_FORMS))})")
    return _FORMS[name]


def list_closed_forms() -> list[str]:
    """Names of the objectives that have a closed form."""
    return sorted(_FORMS)


def form(name: str) -> Callable[[Form], Form]:
    """Registers the closed form of an objective."""

    def keep(function: Form) -> Form:
        _FORMS[name] = function
        return function

    return keep


def softmax_weight(negative: Tensor, temperature: float) -> Tensor:
    """W = softmax(cos θ/τ)/τ."""
    return torch.softmax(negative.cos() / temperature, dim=-1) / temperature


def folded(angle: Tensor) -> Tensor:
    """The same angle in [0, π]: a simulated angle may lie slightly outside."""
    size = angle.abs()
    return torch.minimum(size, 2 * pi - size)


def nearest(negative: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest angle (B,), and 1 at its index (B, n)."""
    angle, place = folded(negative).min(dim=-1, keepdim=True)
    return angle.squeeze(-1), torch.zeros_like(negative).scatter(-1, place, 1.0)


def chord(angle: Tensor) -> Tensor:
    """Distance 2 sin(θ/2) of two unit vectors."""
    return 2 * (folded(angle) / 2).sin()


def without_dissipation(weight: Tensor, pull: Tensor | float) -> Components:
    """GD = 1; R from the positive's coefficient: P = R Σ_j W_j."""
    total = weight.sum(dim=-1)
    return Components(torch.ones_like(total), weight, pull / total)


def share_of_all_pairs(logits: Tensor) -> Tensor:
    """e^{x_ij} / Σ_{k≠l} e^{x_kl} over the N(N-1) pairs of a batch, N = n + 1, from the rows (B, n) of its anchors.

    The sum is N times the mean over the B anchors, which are the whole batch or a sample from its distribution.
    """
    anchors, negatives = logits.shape[-2:]
    size = anchors * negatives
    return torch.softmax(logits.flatten(-2), dim=-1).view(logits.shape) * (size / ((negatives + 1) * negatives))
