"""Li et al. 2024, Table 1: dissipation, weight and ratio of four contrastive losses."""

from __future__ import annotations

import math

from hypersphere.anatomy import closed_form, dissect
from hypersphere.geometry import angle
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.comparison import compare, conclude, random_views, without_own

_SOFTMAX = r"$e^{\cos\theta_n/\tau}\,/\,(\tau\,\Sigma_n e^{\cos\theta_n/\tau})$"
FORMULAS = {
    "infonce": ("InfoNCE", r"$(1 + e^{\cos\theta_p/\tau}\,/\,\Sigma_n e^{\cos\theta_n/\tau})^{-1}$", _SOFTMAX, "1"),
    "arccon": (
        "ArcCon",
        r"$(1 + e^{\cos(\theta_p+u)/\tau}\,/\,\Sigma_n e^{\cos\theta_n/\tau})^{-1}$",
        _SOFTMAX,
        r"$\sin(\theta_p+u)\,/\,\sin\theta_p$",
    ),
    "mpt": ("MPT", r"$\mathbf{1}[\cos\theta_p - \max_n \cos\theta_n < m]$", "1 on the nearest", "1"),
    "met": ("MET", r"$\mathbf{1}[\min_n d_n - d_p < m]$", r"$1/d_n$ on the nearest", r"$d_n\,/\,d_p$"),
}


def table1(quick: bool = False) -> Finding:
    """GD, W, R of InfoNCE, ArcCon, MPT and MET."""
    z1, z2 = random_views(16 if quick else 128)
    theta = angle(z1 @ z2.T)
    rows = []
    for name, (title, gate, weight, ratio) in FORMULAS.items():
        anatomy = dissect(create_objective(name), z1, z2)
        form = closed_form(name)(theta.diagonal(), without_own(theta))
        stopped = anatomy.dissipation == 0  # W and R cannot be measured where nothing moves
        measured = without_own(anatomy.weight[:, : len(z1)])
        rows.append(compare(title, "GD", gate, anatomy.dissipation, form.dissipation))
        rows.append(compare(title, "W", weight, measured[~stopped], form.weight[~stopped]))
        rows.append(compare(title, "R", ratio, anatomy.ratio, form.ratio.masked_fill(stopped, math.nan)))
    return conclude(
        "table1",
        "Table 1",
        "Components of four contrastive losses",
        rows,
        "E1: the triplets' distance to negatives is a minimum, printed as a maximum. E9: the sign in MET's indicator "
        "is reversed in Appendix D.1. Neither was evaluated as printed.",
    )
