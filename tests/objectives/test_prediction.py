"""The prediction term: how far the views of an instance are from their centre."""

from __future__ import annotations

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views


def test_two_views_are_a_quarter_of_their_squared_difference() -> None:
    z1, z2 = views(6, 4)
    terms = hs.create_objective("sigreg", weight=0.0, num_slices=2).terms(z1, z2)
    invariance = hs.create_objective("vicreg", invariance=1.0).terms(z1, z2)["invariance"]
    torch.testing.assert_close(terms["prediction"], invariance / 4)
    assert terms["loss"] == terms["prediction"]


def test_only_global_views_make_the_centre() -> None:
    first, second = (torch.full((3, 2), number) for number in (0.0, 4.0))
    third = torch.full((3, 2), 8.0)

    def prediction(num_global: int | None) -> float:
        objective = hs.create_objective("sigreg", weight=0.0, num_slices=2, num_global=num_global)
        return objective(first, second, views=(third,)).item()

    assert prediction(1) == pytest.approx((0 + 16 + 64) / 3)
    assert prediction(2) == pytest.approx((4 + 4 + 36) / 3)
    assert prediction(3) == prediction(None) == pytest.approx((16 + 0 + 16) / 3)


def test_there_are_no_more_global_views_than_views() -> None:
    z1, z2 = views(6, 4)
    with pytest.raises(ValueError, match="sigreg has num_global=3, but there are 2 views"):
        hs.create_objective("sigreg", num_global=3)(z1, z2)
    with pytest.raises(ValueError, match="sigreg's num_global must be a whole number at least 1, not 0"):
        hs.create_objective("sigreg", num_global=0)
