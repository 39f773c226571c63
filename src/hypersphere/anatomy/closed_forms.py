"""Dissipation, weight and ratio straight from angles, where the papers give them (Tables 1 and 2 of Li et al.).

Each takes the angle of the positive (B,) and of the negatives (B, n) and returns GD (B,), W (B, n), R (B,), for an
anchor's own term. Errata are corrected: nearest negative for the triplets, gates that close when the gap reaches m.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import NamedTuple

import torch
from torch import Tensor


class Components(NamedTuple):
    """The three components of an anchor's gradient."""

    dissipation: Tensor
    weight: Tensor
    ratio: Tensor


Form = Callable[..., Components]
_FORMS: dict[str, Form] = {}


def closed_form(name: str) -> Form:
    """The closed form of an objective: a function of angles and the objective's own parameters.

    >>> gd, weight, ratio = closed_form("mpt")(torch.tensor([0.3]), torch.tensor([[0.4, 1.5]]))
    >>> gd.tolist(), weight.tolist(), ratio.tolist()
    ([1.0], [[1.0, 0.0]], [1.0])
    """
    if name not in _FORMS:
        raise ValueError(f"there is no closed form for {name!r} (there are {', '.join(sorted(_FORMS))})")
    return _FORMS[name]


def list_closed_forms() -> list[str]:
    """Names of the objectives that have one."""
    return sorted(_FORMS)


def _form(name: str) -> Callable[[Form], Form]:
    def keep(form: Form) -> Form:
        _FORMS[name] = form
        return form

    return keep


def _softmax_weight(negative: Tensor, temperature: float) -> Tensor:
    return torch.softmax(negative.cos() / temperature, dim=-1) / temperature


def _folded(angle: Tensor) -> Tensor:
    """The same angle in [0, π]: a simulated one may lie a little outside."""
    size = angle.abs()
    return torch.minimum(size, 2 * pi - size)


def _nearest(negative: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest angle (B,), and 1 at its place (B, n)."""
    angle, place = _folded(negative).min(dim=-1, keepdim=True)
    return angle.squeeze(-1), torch.zeros_like(negative).scatter(-1, place, 1.0)


@_form("infonce")
def infonce(positive: Tensor, negative: Tensor, temperature: float = 0.05) -> Components:
    """GD = 1 - p_ii, W = softmax/τ, R = 1."""
    others = torch.logsumexp(negative.cos() / temperature, dim=-1)
    gate = torch.sigmoid(others - positive.cos() / temperature)
    return Components(gate, _softmax_weight(negative, temperature), torch.ones_like(positive))


@_form("arccon")
def arccon(positive: Tensor, negative: Tensor, temperature: float = 0.05, angle: float = pi / 18) -> Components:
    """GD with cos(θ+u) for the positive, R = sin(θ+u)/sin θ."""
    others = torch.logsumexp(negative.cos() / temperature, dim=-1)
    gate = torch.sigmoid(others - (positive + angle).cos() / temperature)
    ratio = (positive + angle).sin() / positive.sin()
    return Components(gate, _softmax_weight(negative, temperature), ratio)


@_form("dcl")
def dcl(positive: Tensor, negative: Tensor, temperature: float = 0.05) -> Components:
    """GD = 1."""
    return Components(torch.ones_like(positive), _softmax_weight(negative, temperature), torch.ones_like(positive))


@_form("dcl_plus")
def dcl_plus(positive: Tensor, negative: Tensor, temperature: float = 0.15) -> Components:
    """GD = 1 while the decoupled loss is positive."""
    others = torch.logsumexp(negative.cos() / temperature, dim=-1)
    gate = (others > positive.cos() / temperature).to(positive)
    return Components(gate, _softmax_weight(negative, temperature), torch.ones_like(positive))


@_form("mpt")
def mpt(positive: Tensor, negative: Tensor, margin: float = 0.23) -> Components:
    """GD = 1[cos θ_p - cos θ_n < m], W = 1 on the nearest, R = 1."""
    nearest, place = _nearest(negative)
    gate = (positive.cos() - nearest.cos() < margin).to(positive)
    return Components(gate, place, torch.ones_like(positive))


@_form("met")
def met(positive: Tensor, negative: Tensor, margin: float = 0.45) -> Components:
    """GD = 1[d_n - d_p < m], W = 1/d_n on the nearest, R = d_n/d_p, d = 2 sin(θ/2)."""
    nearest, place = _nearest(negative)
    near, far = 2 * (_folded(positive) / 2).sin(), 2 * (nearest / 2).sin()
    gate = (far - near < margin).to(positive)
    return Components(gate, place / far.unsqueeze(-1), far / near)


@_form("mat")
def mat(positive: Tensor, negative: Tensor, margin: float = 0.15 * pi) -> Components:
    """GD = 1[θ_n - θ_p < m], W = 1/sin θ_n on the nearest, R = sin θ_n / sin θ_p."""
    nearest, place = _nearest(negative)
    positive = _folded(positive)
    gate = (nearest - positive < margin).to(positive)
    return Components(gate, place / nearest.sin().unsqueeze(-1), nearest.sin() / positive.sin())


@_form("paradigm")
def paradigm(
    positive: Tensor, negative: Tensor, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.0
) -> Components:
    """Li's baseline: margin gate, softmax without 1/τ, constant ratio."""
    nearest, _ = _nearest(negative)
    gate = (positive.cos() - nearest.cos() < margin).to(positive)
    weight = torch.softmax(negative.cos() / temperature, dim=-1)
    return Components(gate, weight, torch.full_like(positive, ratio))


@_form("dhel")
def dhel(positive: Tensor, negative: Tensor, temperature: float = 0.3) -> Components:
    """GD = 1, W = softmax/τ over the anchor's own view, R = 1."""
    return dcl(positive, negative, temperature)
