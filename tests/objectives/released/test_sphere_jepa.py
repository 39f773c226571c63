"""The printed form of SPHERE-JEPA's kl, against the plain loop of the one that is right."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.special import gammaln

import hypersphere as hs
from hypersphere.testing.example import views
from tests.reference import sphere
from tests.reference.vectors import mean, unit_rows


@pytest.mark.parametrize(("dim", "kernel"), [(19, "heat"), (24, "induced")])
def test_the_printed_kl_is_divided_by_the_logarithm_of_the_area(dim: int, kernel: str) -> None:
    z1, z2 = views(5, dim)
    area = math.log(2) + dim / 2 * math.log(math.pi) - gammaln(dim / 2)
    assert area < 0
    phi = sphere.kernel_of(kernel, dim, 2.0, 2)
    kl = mean([sphere.test_of(unit_rows(z.tolist()), "kl", phi) for z in (z1, z2)])
    printed = hs.create_objective("printed/sphere_jepa", kernel=kernel).terms(z1, z2)
    assert printed["regulariser"].item() == pytest.approx(0.5 * (1 - kl / area), rel=1e-9)
    right = hs.create_objective("sphere_jepa", test="kl", kernel=kernel, weight=0.5, time=2.0).terms(z1, z2)
    assert printed["prediction"].item() == right["prediction"].item()
    torch.testing.assert_close(printed["loss"], printed["prediction"] + printed["regulariser"])


def test_collapse_is_1_from_19_dimensions_on_and_refused_below() -> None:
    """|S^{D-1}| is above 1 up to D = 18: divided by -log of it, the test would fall as rows collapse."""
    objective = hs.create_objective("printed/sphere_jepa", weight=1.0)
    assert objective(torch.ones(4, 19), torch.ones(4, 19)).item() == pytest.approx(1, rel=1e-5)
    assert objective(*views(6, 19)).item() < 1
    with pytest.raises(ValueError, match=r"rewards collapse up to 18 dimensions.* rows have 18: take sphere_jepa"):
        objective(*views(6, 18))
    with pytest.raises(ValueError, match="test must be 'kl'"):
        hs.create_objective("printed/sphere_jepa", test="mmd")
