"""Losses in which each anchor has its own negatives (Table 1 of Li et al. 2024): gradient of the own term in h_i.

Errata are corrected: the nearest negative for the triplets, gates that close when the gap reaches m.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

from hypersphere.anatomy.closed_forms.forms import Components, chord, folded, form, nearest, softmax_weight


@form("infonce")
def infonce(positive: Tensor, negative: Tensor, temperature: float = 0.05) -> Components:
    """GD = 1 - p_ii, W = softmax/τ, R = 1."""
    others = torch.logsumexp(negative.cos() / temperature, dim=-1)
    gate = torch.sigmoid(others - positive.cos() / temperature)
    return Components(gate, softmax_weight(negative, temperature), torch.ones_like(positive))


@form("ntxent")
def ntxent(positive: Tensor, negative: Tensor, temperature: float = 0.5) -> Components:
    """As InfoNCE, with the 2N - 2 negatives of both views."""
    return infonce(positive, negative, temperature)


@form("arccon")
def arccon(positive: Tensor, negative: Tensor, temperature: float = 0.05, angle: float = pi / 18) -> Components:
    """GD with cos(θ+u) for the positive, R = sin(θ+u)/sin θ."""
    others = torch.logsumexp(negative.cos() / temperature, dim=-1)
    gate = torch.sigmoid(others - (positive + angle).cos() / temperature)
    ratio = (positive + angle).sin() / positive.sin()
    return Components(gate, softmax_weight(negative, temperature), ratio)


@form("dcl")
def dcl(positive: Tensor, negative: Tensor, temperature: float = 0.05) -> Components:
    """GD = 1."""
    return Components(torch.ones_like(positive), softmax_weight(negative, temperature), torch.ones_like(positive))


@form("dcl_plus")
def dcl_plus(positive: Tensor, negative: Tensor, temperature: float = 0.15) -> Components:
    """GD = 1 while the decoupled loss is positive."""
    others = torch.logsumexp(negative.cos() / temperature, dim=-1)
    gate = (others > positive.cos() / temperature).to(positive)
    return Components(gate, softmax_weight(negative, temperature), torch.ones_like(positive))


@form("mpt")
def mpt(positive: Tensor, negative: Tensor, margin: float = 0.23) -> Components:
    """GD = 1[cos θ_p - cos θ_n < m], W = 1 on the nearest, R = 1."""
    angle, place = nearest(negative)
    gate = (positive.cos() - angle.cos() < margin).to(positive)
    return Components(gate, place, torch.ones_like(positive))


@form("met")
def met(positive: Tensor, negative: Tensor, margin: float = 0.45) -> Components:
    """GD = 1[d_n - d_p < m], W = 1/d_n on the nearest, R = d_n/d_p, d = 2 sin(θ/2)."""
    angle, place = nearest(negative)
    near, far = chord(positive), chord(angle)
    gate = (far - near < margin).to(positive)
    return Components(gate, place / far.unsqueeze(-1), far / near)


@form("mat")
def mat(positive: Tensor, negative: Tensor, margin: float = 0.15 * pi) -> Components:
    """GD = 1[θ_n - θ_p < m], W = 1/sin θ_n on the nearest, R = sin θ_n / sin θ_p."""
    angle, place = nearest(negative)
    positive = folded(positive)
    gate = (angle - positive < margin).to(positive)
    return Components(gate, place / angle.sin().unsqueeze(-1), angle.sin() / positive.sin())


@form("triplet")
def triplet(positive: Tensor, negative: Tensor, distance: str = "euclidean", margin: float = 0.45) -> Components:
    """MPT, MET or MAT, by its distance: dot, euclidean or angle."""
    forms = {"dot": mpt, "euclidean": met, "angle": mat}
    if distance not in forms:
        raise ValueError(f"triplet's distance must be {', '.join(forms)}, not {distance!r}")
    return forms[distance](positive, negative, margin)


@form("paradigm")
def paradigm(
    positive: Tensor, negative: Tensor, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.0
) -> Components:
    """Li's baseline: margin gate, softmax without 1/τ, constant ratio."""
    angle, _ = nearest(negative)
    gate = (positive.cos() - angle.cos() < margin).to(positive)
    weight = torch.softmax(negative.cos() / temperature, dim=-1)
    return Components(gate, weight, torch.full_like(positive, ratio))
