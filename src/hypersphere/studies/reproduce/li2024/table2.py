"""Li et al. 2024, Table 2: the losses without negatives of another view, as they are and modified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy import closed_form, dissect
from hypersphere.geometry import angle, chord, tangent
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.comparison import compare, conclude, random_views, without_own

BARLOW = 30.0  # ν of unit Barlow Twins
DIM = 12
_GATE = r"$d_i = \mathbf{1}[s_{ii} - \max_k s_{ik} < m]$"
_NEAREST = r"$\,/\,\|h_i - h_j\|$ on the nearest"


@dataclass(frozen=True)
class Row:
    """A loss to dissect, its expected closed form, and the paper's notation for W and R."""

    title: str
    loss: Callable[..., Any]
    form: str
    weight: str
    ratio: str
    settings: dict[str, Any]
    scope: str = "anchor"
    gated: bool = True


def _separation(x: Tensor, y: Tensor) -> Tensor:
    """mean_i ‖h_i-h'_i‖² - Σ_i min_j ‖h_i-h_j‖, with the others constant, as in the table."""
    nearest = (x @ x.detach().T).fill_diagonal_(-2).amax(dim=1)
    return (2 - 2 * (x * y).sum(1)).mean() - chord(nearest).sum()


def _covariance(x: Tensor, y: Tensor) -> Tensor:
    """mean_i ‖h_i-h'_i‖² + (1/D) Σ_kl Cov_kl² of rows that are centred already."""
    return (2 - 2 * (x * y).sum(1)).mean() + (x @ x.T).pow(2).sum() / (DIM * (len(x) - 1) ** 2)


def _modified(name: str, title: str, weight: str) -> Row:
    return Row(title, create_objective(name, views="anchor"), name, weight, "$r$", {})


ROWS = (
    Row("align + MHE", create_objective("mhe"), "mhe", r"$2\nu e^{2a_{ij}}\,/\,\Sigma_{k<l} e^{2a_{kl}}$",
        r"$\Sigma_{k<l} e^{2a_{kl}}\,/\,(\nu N\,\Sigma_k e^{2a_{ik}})$", {}, "batch", gated=False),
    Row("align + MHS", _separation, "mmhs", rf"$\nu${_NEAREST}", r"$2\|h_i - h_j\|\,/\,(\nu N)$",
        {"stage": "original"}, gated=False),
    Row("VICReg (surrogate)", _covariance, "vicreg_surrogate", r"$4\nu a_{ij}\,/\,(D(N-1)^2)$",
        r"$D(N-1)^2\,/\,(2N\nu\,\Sigma_k a_{ik})$", {"dim": DIM}, gated=False),
    _modified("mmhe", "mMHE", r"$e^{a_{ij}/\tau}\,/\,(\tau\,\Sigma_{k<l} e^{a_{kl}/\tau})$"),
    _modified("mmhs", "mMHS", rf"$1${_NEAREST}"),
    _modified("mbarlow", "mBarlow", r"$e^{s_{ij}/\tau}\,/\,\Sigma_{k\neq l} e^{s_{kl}/\tau}$"),
    _modified("mvicreg", "mVICReg", r"$e^{a_{ij}/\tau}\,/\,\Sigma_{k\neq l} e^{a_{kl}/\tau}$"),
)  # fmt: skip


def table2(quick: bool = False) -> Finding:
    """GD, W, R of the non-contrastive losses, as they are and modified."""
    z1, z2 = random_views(12 if quick else 48, DIM)
    rows = [line for row in ROWS[:2] for line in _compared(row, z1, z2)]
    barlow, printed = _barlow(z1, z2)
    rows += barlow
    rows += [line for row in ROWS[2:] for line in _compared(row, z1, z2)]
    printed.append(_separation_as_printed(z1, z2))
    return conclude(
        "table2",
        "Table 2",
        "Components of the other losses, original and modified",
        rows,
        "E4 and E5: Barlow's C and weight need both views; E7: minimum for maximum in the loss mMHS (Eq. 15). E4 may "
        "be a prime lost from the text and was not evaluated as printed. Barlow's ratio is a "
        "matrix, of which the part along the positive is given, and the whole gradient is compared. VICReg's row is "
        "the gradient of alignment plus the full covariance penalty of centred unit rows, a surrogate for VICReg "
        "itself, and is measured on that. The modified losses have all their stages.",
        printed,
    )


def _compared(row: Row, z1: Tensor, z2: Tensor) -> list[dict[str, Any]]:
    size = len(z1)
    anatomy = dissect(row.loss, z1, z2, scope=row.scope, most_anchors=size)
    settings = {**row.settings, "cross": without_own(angle(z1 @ z2.T))} if row.gated else row.settings
    form = closed_form(row.form)(angle((z1 * z2).sum(1)), without_own(angle(z1 @ z1.T)), **settings)
    moving = form.dissipation > 0
    measured = without_own(anatomy.weight[:, size : 2 * size])
    return [
        compare(row.title, "GD", _GATE if row.gated else "1", anatomy.dissipation, form.dissipation),
        compare(row.title, "W", row.weight, measured[moving], form.weight[moving]),
        compare(row.title, "R", row.ratio, anatomy.ratio, form.ratio.masked_fill(~moving, math.nan)),
    ]


def _separation_as_printed(z1: Tensor, z2: Tensor) -> dict[str, Any]:
    """The ratio of mMHS if its pull is over the largest distance, as in Eq. 15, beside the table's r."""
    ratio = 1.75
    anatomy = dissect(create_objective("printed/mmhs", views="anchor", ratio=ratio), z1, z2)
    return compare("mMHS (Eq. 15)", "R", "$r$", anatomy.ratio, torch.where(anatomy.moving, ratio, math.nan))


def _barlow(z1: Tensor, z2: Tensor) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Σ_j W_ij (h_j - R h'_i) with W = 2ν b_ij/N² and the matrix R = N A/(ν Σ_k b_ik), A = I - (1-ν) diag C, b_ij of
    the other view; and the weight as it is printed, with h_i·h'_j."""
    size, title = len(z1), "Barlow (unit rows)"
    loss = create_objective("barlow", normalization="unit", weight=BARLOW)
    anatomy = dissect(loss, z1, z2)
    form = closed_form("barlow")(angle((z1 * z2).sum(1)), without_own(angle(z2 @ z2.T)), weight=BARLOW)
    pull = tangent(2 / size * (1 - (1 - BARLOW) * (z1 * z2).mean(0)) * z2, z1)
    along = tangent(z2, z1)
    ratio = (pull * along).sum(1) / (along**2).sum(1) / form.weight.sum(1)
    x = z1.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(x, z2), [x])
    weights = torch.zeros(size, size, dtype=z1.dtype)
    weights[~torch.eye(size, dtype=torch.bool)] = form.weight.flatten()
    whole = tangent(weights @ z1, z1) - pull
    measured = without_own(anatomy.weight[:, size : 2 * size])
    printed = without_own(2 * BARLOW * (z1 @ z2.T) / size**2)
    return [
        compare(title, "GD", "1", anatomy.dissipation, form.dissipation),
        compare(title, "W", r"$2\nu b_{ij}\,/\,N^2$", measured, form.weight),
        compare(title, "R along $h'_i$", r"of $N A\,/\,(\nu\,\Sigma_k b_{ik}),\ A = I - (1-\nu)\,\mathrm{diag}\,C$",
                anatomy.ratio, ratio),
        compare(title, "gradient", r"$\Sigma_j W_{ij}(h_j - R\,h'_i)$", tangent(grad, z1), whole),
    ], [compare(title, "W", r"$2\nu s_{ij}\,/\,N^2$", measured, printed)]  # fmt: skip
