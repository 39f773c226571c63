"""Alignment with an energy of the pairs. None of these dissipates. Gradients are of the batch loss in h_i, unless a
form states otherwise.

Negatives come from the anchor's own view (``align_uniform``: from either view). Their weights are shares of the energy
of the whole batch, which is computed from the rows of all anchors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hypersphere.anatomy.closed_forms.contrastive import dcl
from hypersphere.anatomy.closed_forms.forms import (
    Components,
    chord,
    form,
    nearest,
    share_of_all_pairs,
    without_dissipation,
)


@form("align_uniform")
def align_uniform(
    positive: Tensor, negative: Tensor, alpha: float = 2.0, t: float = 2.0, weight: float = 0.5
) -> Components:
    """W = 2tλ e^{2t cos θ_j} / Σ_{k≠l} e^{2t cos θ_kl}, P = (1-λ)(α/N) d^{α-2}, d the distance of the positive.

    Pairs across the views (Nie), or within each and averaged (Wang and Isola): the same formula.
    """
    size = negative.shape[-1] + 1
    pull = (1 - weight) * alpha / size * chord(positive) ** (alpha - 2)
    return without_dissipation(2 * t * weight * share_of_all_pairs(2 * t * negative.cos()), pull)


@form("mhe")
def mhe(positive: Tensor, negative: Tensor, weight: float = 10.0) -> Components:
    """W = 2ν e^{2a_ij} / Σ_{k<l} e^{2a_kl}, R = Σ_{k<l} e^{2a_kl} / (νN Σ_{k≠i} e^{2a_ik})."""
    # factor 2: a sum over k < l is half of the sum over ordered pairs
    return without_dissipation(4 * weight * share_of_all_pairs(2 * negative.cos()), 2 / (negative.shape[-1] + 1))


@form("mhs")
def mhs(positive: Tensor, negative: Tensor, weight: float = 1.0) -> Components:
    """Own term ‖h_i-h'_i‖² - ν min_j ‖h_i-h_j‖: W = ν/‖h_i-h_j‖ on the nearest, R = 2‖h_i-h_j‖/ν.

    Li's Table 2 has 2‖h_i-h_j‖/(νN), a mean of alignments beside a sum of separations: ``mmhs``, stage original.
    """
    angle, place = nearest(negative)
    return without_dissipation(weight * place / chord(angle).unsqueeze(-1), 2.0)


@form("dhel")
def dhel(positive: Tensor, negative: Tensor, temperature: float = 0.3, scope: str = "anchor") -> Components:
    """Own term: GD = 1, W = softmax/τ over the anchor's own view, R = 1.

    scope "batch" is the full gradient, where h_i is also a negative of the others: W = (q_ij + q_ji)/τ and
    R = 1/(1 + Σ_j q_ji), for a whole batch whose rows leave out the diagonal and keep the order.
    """
    own = dcl(positive, negative, temperature)
    if scope == "anchor":
        return own
    size = len(negative)
    if negative.shape != (size, size - 1):
        raise ValueError(f"the full gradient needs all anchors, angles of (N, N-1), not {tuple(negative.shape)}")
    off = ~torch.eye(size, dtype=torch.bool, device=negative.device)
    square = torch.zeros(size, size, dtype=negative.dtype, device=negative.device)
    square[off] = own.weight.flatten()
    return without_dissipation((square + square.T)[off].view(size, size - 1), 1 / temperature)


@form("kcl")
def kcl(
    positive: Tensor,
    negative: Tensor,
    kernel: str = "gaussian",
    t: float = 2.0,
    c: float = 2.0,
    s: float = 1.0,
    gamma: float = 16.0,
    views: str = "anchor",
) -> Components:
    """W = -4γ K'(q_ij) / (N(N-1)), P = -(2/N) K'(q_ii'), q the squared distance; views "both": P twice.

    Gaussian: W = 4γt e^{-tq_ij} / (N(N-1)), R = (N-1) e^{-tq_ii'} / (2γ Σ_k e^{-tq_ik}).
    """
    derivatives: dict[str, Callable[[Tensor], Tensor]] = {  # -dK/dq
        "gaussian": lambda q: t * torch.exp(-t * q),
        "log": lambda q: 0.5 * t / (1 + t * q),
        "imq": lambda q: 0.5 * c * (c**2 + q) ** -1.5,
        "riesz": lambda q: 0.5 * abs(s) * q ** (-s / 2 - 1),
    }
    energy = derivatives["riesz" if kernel == "gaussian_riesz" else kernel]
    alignment = derivatives["gaussian" if kernel == "gaussian_riesz" else kernel]
    size = negative.shape[-1] + 1
    pull = (4 if views == "both" else 2) / size * alignment(chord(positive) ** 2)
    return without_dissipation(4 * gamma / (size * (size - 1)) * energy(chord(negative) ** 2), pull)
