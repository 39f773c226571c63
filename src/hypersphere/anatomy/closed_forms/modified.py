"""The modified objectives of Li et al. 2024, stage by stage (Table 2, Eq. 14 to 17): GD = d_i from +gd on.

``negative`` are the angles within the anchor's own view. ``cross`` are the angles with the other view, which decide the
gate d_i = 1[cos θ_ii' - max_k cos θ_ik' < m]; without ``cross`` one set of angles serves for both.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hypersphere.anatomy.closed_forms.forms import Components, chord, form, nearest, share_of_all_pairs

STAGES = ("original", "+gd", "+w", "+r")


def _staged(
    positive: Tensor, cross: Tensor, weight: Tensor, stage: str, margin: float, ratio: float, pull: float | None = None
) -> Components:
    """GD 1 or the gate; R such that P = 2/N (or ``pull``), and r at the last stage."""
    if stage not in STAGES:
        raise ValueError(f"a stage is {', '.join(STAGES)}, not {stage!r}")
    gate = torch.ones_like(positive)
    if stage != "original":
        gate = (positive.cos() - nearest(cross)[0].cos() < margin).to(positive)
    if stage == "+r":
        return Components(gate, weight, torch.full_like(positive, ratio))
    pull = 2 / (weight.shape[-1] + 1) if pull is None else pull
    return Components(gate, weight, pull / weight.sum(dim=-1))


def _weighted(stage: str) -> bool:
    return stage in ("+w", "+r")


@form("mmhe")
def mmhe(
    positive: Tensor,
    negative: Tensor,
    cross: Tensor | None = None,
    stage: str = "+r",
    margin: float = 0.30,
    temperature: float = 0.05,
    ratio: float = 1.75,
    weight: float = 10.0,
) -> Components:
    """W = 2ν e^{2a_ij}/Σ_{k<l} e^{2a_kl}, P = 2/N; from +w on W = e^{a_ij/τ}/(τ Σ_{k<l} e^{a_kl/τ}); +r: R = r."""
    if _weighted(stage):
        push = 2 / temperature * share_of_all_pairs(negative.cos() / temperature)
    else:
        push = 4 * weight * share_of_all_pairs(2 * negative.cos())
    return _staged(positive, negative if cross is None else cross, push, stage, margin, ratio)


@form("mmhs")
def mmhs(
    positive: Tensor,
    negative: Tensor,
    cross: Tensor | None = None,
    stage: str = "+r",
    margin: float = 0.30,
    ratio: float = 1.75,
    weight: float = 1.0,
) -> Components:
    """W = ν/‖h_i-h_j‖ on the nearest, P = 2/N (the row of MHS in Table 2); +r: ν = 1, R = r. It has no stage +w."""
    if stage == "+w":
        raise ValueError("mmhs has no stage '+w', only original, +gd, +r")
    angle, place = nearest(negative)
    push = (1.0 if stage == "+r" else weight) * place / chord(angle).unsqueeze(-1)
    return _staged(positive, negative if cross is None else cross, push, stage, margin, ratio)


@form("mbarlow")
def mbarlow(
    positive: Tensor,
    negative: Tensor,
    cross: Tensor | None = None,
    other: Tensor | None = None,
    stage: str = "+r",
    margin: float = 0.30,
    temperature: float = 0.05,
    ratio: float = 1.5,
    weight: float = 30.0,
) -> Components:
    """W = 2ν b_ij/N², b_ij from the angles ``other`` within the other view; +w: W = e^{s_ij/τ}/Σ_{k≠l} e^{s_kl/τ}, s_ij
    from ``cross``, P = 2/N; +r: R = r.

    Before +w the positive's factor is a matrix of features, as in ``barlow``: the ratio is NaN, except for ν = 1.
    """
    cross, other = (negative if each is None else each for each in (cross, other))
    if _weighted(stage):
        return _staged(positive, cross, share_of_all_pairs(cross.cos() / temperature), stage, margin, ratio)
    push = 2 * weight * other.cos() / (other.shape[-1] + 1) ** 2
    return _staged(positive, cross, push, stage, margin, ratio, None if weight == 1 else math.nan)


@form("mvicreg")
def mvicreg(
    positive: Tensor,
    negative: Tensor,
    cross: Tensor | None = None,
    stage: str = "+r",
    margin: float = 0.30,
    temperature: float = 0.05,
    ratio: float = 1.5,
    weight: float = 30.0,
) -> Components:
    """W = 2ν a_ij/N², P = 2/N; +w: W = e^{a_ij/τ}/Σ_{k≠l} e^{a_kl/τ}; +r: R = r."""
    if _weighted(stage):
        push = share_of_all_pairs(negative.cos() / temperature)
    else:
        push = 2 * weight * negative.cos() / (negative.shape[-1] + 1) ** 2
    return _staged(positive, negative if cross is None else cross, push, stage, margin, ratio)
