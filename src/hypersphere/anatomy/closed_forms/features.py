"""Barlow Twins and VICReg on unit rows, where penalties of features expand into weights of pairs."""

from __future__ import annotations

import math

from torch import Tensor

from hypersphere.anatomy.closed_forms.forms import Components, form, without_dissipation


@form("barlow")
def barlow(positive: Tensor, negative: Tensor, weight: float = 30.0) -> Components:
    """Unit rows: GD = 1, W = 2ν cos θ_ij/N², θ_ij the angles within the *other* view (Li prints h_i·h'_j, E5).

    R = N A/(ν Σ_k cos θ_ik) is a matrix, A = I - (1-ν) diag C. The angles do not determine C, the correlation of
    features: the ratio is NaN, except for ν = 1, where A = I.
    """
    size = negative.shape[-1] + 1
    return without_dissipation(2 * weight * negative.cos() / size**2, 2 / size if weight == 1 else math.nan)


@form("vicreg_surrogate")
def vicreg_surrogate(positive: Tensor, negative: Tensor, dim: int, weight: float = 1.0) -> Components:
    """Li's row of VICReg: the gradient of alignment + (ν/D) ‖Cov‖², diagonal included, of centred unit rows.

    W = 4ν a_ij/(D(N-1)²), R = D(N-1)²/(2Nν Σ_k a_ik), a_ij within the anchor's view. VICReg itself leaves the
    diagonal out of the penalty and puts a hinge on it instead.
    """
    size = negative.shape[-1] + 1
    return without_dissipation(4 * weight * negative.cos() / (dim * (size - 1) ** 2), 2 / size)
