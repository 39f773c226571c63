"""Barlow Twins and VICReg on unit rows, against autograd and plain loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy import closed_form
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.anatomy.closed_forms.angles import CLOSE, SIZE, Row, assert_dissected_as_stated, rows_of

ROWS = [
    Row("barlow", {"weight": 1.0}, "same", "batch", {"normalization": "unit"}, ("other",)),
    Row("barlow", {"weight": 30.0}, "same", "batch", {"normalization": "unit"}, ("other",)),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_dissection_equals_the_closed_form(row: Row) -> None:
    assert_dissected_as_stated(row)


def test_row_of_vicreg_is_alignment_and_the_whole_covariance_of_centred_rows() -> None:
    first, second = views(SIZE, 5)
    z1, z2 = torch.cat([first, -first]), torch.cat([second, -second])  # mean 0, also on the sphere
    size, weight = 2 * SIZE, 7.0

    def loss(a: Tensor, b: Tensor) -> Tensor:
        h, g = unit(a), unit(b)
        return (h - g).pow(2).sum(dim=1).mean() + weight / 5 * torch.cov(h.T).pow(2).sum()

    anatomy = hs.dissect(loss, z1, z2)
    h = unit(z1)
    positive = (h * unit(z2)).sum(dim=1).arccos()
    expected = closed_form("vicreg_surrogate")(positive, rows_of((h @ h.T).clamp(-1, 1).arccos()), dim=5, weight=weight)
    torch.testing.assert_close(rows_of(anatomy.coefficients.same), expected.weight, rtol=1e-9, atol=1e-10)
    pull = torch.full((size,), -2 / size, dtype=torch.float64)
    torch.testing.assert_close(anatomy.coefficients.positive, pull, **CLOSE)
    # Each row meets its opposite, so Σ_k a_ik = -1 and the ratio is minus D(N-1)²/(2Nν).
    torch.testing.assert_close(expected.ratio, -torch.full_like(expected.ratio, 5 * 17**2 / (2 * size * weight)))
    torch.testing.assert_close(anatomy.dissipation, expected.dissipation, **CLOSE)


def test_barlows_ratio_is_a_matrix_and_its_projection_is_reported() -> None:
    """Against autograd and plain loops: tangential part of (2/N) A y_i along that of y_i, the rest a residual."""
    z1, z2 = views(6, 4)
    h, g, weight = unit(z1), unit(z2), 30.0
    anatomy = hs.dissect(hs.create_objective("barlow", normalization="unit", weight=weight), z1, z2)
    assert not anatomy.rotation_invariant
    torch.testing.assert_close(anatomy.dissipation, torch.ones(6, dtype=torch.float64))
    correlation = sum(h[i, :, None] * g[i, None, :] for i in range(6)) / 6
    factors = 1 - (1 - weight) * correlation.diagonal()
    for i in range(6):
        inward = torch.eye(4, dtype=torch.float64) - torch.outer(h[i], h[i])
        pull, along = 2 / 6 * inward @ (factors * g[i]), inward @ g[i]
        share = pull @ along / (along @ along)
        assert anatomy.coefficients.positive[i].item() == pytest.approx(-share.item(), rel=1e-8)
        pushes = sum(2 * weight * (g[i] @ g[j]).item() / 36 for j in range(6) if j != i)
        assert anatomy.ratio[i].item() == pytest.approx(share.item() / pushes, rel=1e-8)
        push = sum(2 * weight * (g[i] @ g[j]) / 36 * inward @ h[j] for j in range(6) if j != i)
        rest = (pull - share * along).norm()
        whole, kept = (push - pull).norm(), (push - share * along).norm()
        assert anatomy.residual[i].item() == pytest.approx((rest / (whole + kept)).item(), rel=1e-7)
    assert closed_form("barlow")(*(torch.ones(2), torch.ones(2, 3)), weight=30.0).ratio.isnan().all()
