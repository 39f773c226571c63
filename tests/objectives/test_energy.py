"""Energies of MHE, MHS and KoLeo."""

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


@settings(deadline=None, max_examples=30)
@given(batches())
def test_koleo_is_the_logarithm_of_the_distance_of_mhs(batch: tuple[Tensor, Tensor]) -> None:
    koleo = hs.create_objective("koleo", reduction="none", eps=1e-3)(*batch)
    for rows, losses in zip(batch, koleo.chunk(2), strict=True):
        distances = -hs.create_objective("mhs", reduction="none").terms(rows, rows)["energy"]
        torch.testing.assert_close((-losses).exp() - 1e-3, distances, rtol=1e-9, atol=1e-9)


def test_koleo_against_loops() -> None:
    z1, z2 = views(6, 4)
    h = [ref.unit_rows(z.numpy()) for z in (z1, z2)]
    nearest = [min(ref.euclidean(ref.dot(x, y)) for j, y in enumerate(rows) if j != i) for rows in h
               for i, x in enumerate(rows)]  # fmt: skip
    expected = ref.mean([-math.log(d + 1e-8) for d in nearest])
    assert hs.create_objective("koleo")(z1, z2).item() == pytest.approx(expected, rel=1e-12)
    alone = hs.create_objective("koleo")(z1, z2, ids=torch.zeros(6, dtype=torch.long))
    assert alone.item() == 0


def test_koleo_of_antipodal_and_of_coincident_rows() -> None:
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([[3.0, 4.0, 1.0], [-3.0, -4.0, -1.0]], dtype=dtype)
        assert hs.create_objective("koleo")(x, x).item() == pytest.approx(-math.log(2), rel=1e-6)
        same = x[:1].repeat(4, 1).requires_grad_()
        for block in (None, 3):
            with hs.dense() if block is None else hs.streaming(block):
                value = hs.create_objective("koleo")(same, same)
                (grad,) = torch.autograd.grad(value, same)
            assert value.item() == pytest.approx(-math.log(1e-8), rel=1e-6) and not grad.any()
    with pytest.raises(ValueError, match="koleo needs a batch of at least two instances"):
        hs.create_objective("koleo")(x[:1], x[:1])
