"""Gates of the modified objectives."""

from __future__ import annotations

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.theory import loss_gradients


@pytest.mark.parametrize("stage", ["+gd", "+w", "+r"])
@pytest.mark.parametrize("name", ["mmhe", "mbarlow"])
def test_a_closed_gate_stops_a_vector_completely(name: str, stage: str) -> None:
    z1, z2 = views(8, 5)
    h, g = unit(z1), unit(z2)
    s = h @ g.T
    gap = s.diagonal() - (s - 9 * torch.eye(8)).amax(dim=1)
    other = s.diagonal() - (s - 9 * torch.eye(8)).amax(dim=0)
    margin = gap.median().item() + 1e-9
    one, two = loss_gradients(hs.create_objective(name, stage=stage, margin=margin), z1, z2)
    assert 0 < (gap >= margin).sum() < 8
    assert (one[gap >= margin] == 0).all()
    assert (one[gap < margin].abs().amax(dim=1) > 1e-9).all()
    assert (two[other >= margin] == 0).all()
