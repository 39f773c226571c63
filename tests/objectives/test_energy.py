"""Energies of MHE and MHS."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

import hypersphere as hs
from hypersphere.testing.example import views
from tests import reference as ref
from tests.theory import batches


@settings(deadline=None, max_examples=30)
@given(batches())
def test_the_energy_of_mhe_is_the_uniformity_with_t_one(batch: tuple[Tensor, Tensor]) -> None:
    energy = hs.create_objective("mhe", weight=1.0, views="both").terms(*batch)["energy"]
    uniformity = hs.create_objective("align_uniform", weight=1.0, t=1.0).terms(*batch)["uniformity"]
    torch.testing.assert_close(energy, 2 * uniformity, rtol=1e-12, atol=1e-14)


def test_riesz_energies_of_mhe_against_loops() -> None:
    z1, _ = views(6, 4)
    h = ref.unit_rows(z1.numpy())
    pairs = [ref.euclidean(ref.dot(h[i], h[j])) for i in range(6) for j in range(6) if i != j]
    for s in (0, 1.0, 2.0):
        expected = ref.mean([-math.log(d) if s == 0 else d**-s for d in pairs])
        energy = hs.create_objective("mhe", s=s, weight=1.0).terms(z1, z1)["energy"].item()
        assert energy == pytest.approx(expected, rel=1e-12)


def test_golden_energies_of_mhe_and_mhs() -> None:
    z1, z2 = (torch.as_tensor(np.asarray(z), dtype=torch.float64) for z in ref.golden_views())
    mhe = hs.create_objective("mhe", weight=1.0).terms(z1, z2)["energy"].item()
    mhs = hs.create_objective("mhs", weight=1.0).terms(z1, z2)["energy"].item()
    assert mhe == pytest.approx(ref.GOLDEN["mhe"], abs=1e-9)
    assert mhs == pytest.approx(ref.GOLDEN["mhs_mean"], abs=1e-9)
