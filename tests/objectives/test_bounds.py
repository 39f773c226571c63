"""Bounds and identities that hold for every anchor, and means over subsets of a batch."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.objectives import Objective
from hypersphere.testing.example import views
from tests.theory import KERNEL_SLOPES, SLACK, TEMPERATURES, Params, batches, per_anchor


@settings(deadline=None)
@given(batches(), TEMPERATURES)
def test_infonce_is_at_most_log_two_above_dcl_plus_and_dcl_plus_below_mpt(
    batch: tuple[Tensor, Tensor], tau: float
) -> None:
    """infonce ≤ log 2 + dcl_plus ≤ log 2 + mpt/τ with the margin τ log(N-1), and dcl_plus ≤ infonce."""
    infonce, dcl_plus = (per_anchor(name, *batch, temperature=tau) for name in ("infonce", "dcl_plus"))
    mpt = per_anchor("mpt", *batch, margin=tau * math.log(len(batch[0]) - 1))
    assert (infonce - dcl_plus >= -SLACK).all()
    assert (infonce - dcl_plus <= math.log(2) + SLACK).all()
    assert (dcl_plus <= mpt / tau + SLACK).all()


def test_the_gap_between_infonce_and_dcl_plus_is_log_two_where_dcl_is_zero() -> None:
    """One negative as close as the positive: dcl = 0."""
    x = torch.eye(2, dtype=torch.float64)
    y = torch.ones(2, 2, dtype=torch.float64)
    gap = per_anchor("infonce", x, y) - per_anchor("dcl_plus", x, y, temperature=0.05)
    torch.testing.assert_close(gap, torch.full_like(gap, math.log(2)), rtol=0, atol=1e-12)


@settings(deadline=None)
@given(batches(), TEMPERATURES)
def test_infonce_is_the_softplus_of_dcl(batch: tuple[Tensor, Tensor], tau: float) -> None:
    infonce, dcl = (per_anchor(name, *batch, temperature=tau) for name in ("infonce", "dcl"))
    torch.testing.assert_close(infonce, torch.logaddexp(dcl, torch.zeros_like(dcl)), rtol=1e-10, atol=0)


@settings(deadline=None)
@given(batches(), TEMPERATURES, st.floats(0.0, math.pi))
def test_arccon_is_never_below_infonce_while_its_angle_stays_below_pi(
    batch: tuple[Tensor, Tensor], tau: float, margin: float
) -> None:
    infonce = per_anchor("infonce", *batch, temperature=tau)
    arccon = per_anchor("arccon", *batch, temperature=tau, angle=margin)
    angles = (unit(batch[0]) * unit(batch[1])).sum(dim=1).clamp(-1, 1).arccos()
    assert (arccon >= infonce - SLACK)[angles + margin <= math.pi].all()
    plain = per_anchor("arccon", *batch, temperature=tau, angle=0.0)
    torch.testing.assert_close(plain, infonce, rtol=1e-12, atol=1e-14)


def test_arccon_may_be_below_infonce_beyond_pi() -> None:
    """cos(θ+u) rises again once θ+u > π."""
    x = torch.eye(2, dtype=torch.float64)
    assert (per_anchor("arccon", x, -x, angle=math.pi, temperature=1.0) < per_anchor("infonce", x, -x)).all()


@settings(deadline=None, max_examples=30)
@given(batches())
def test_the_energy_of_mhe_is_the_uniformity_with_t_one(batch: tuple[Tensor, Tensor]) -> None:
    energy = hs.create_objective("mhe", weight=1.0, views="both").terms(*batch)["energy"]
    uniformity = hs.create_objective("align_uniform", weight=1.0, t=1.0).terms(*batch)["uniformity"]
    torch.testing.assert_close(energy, 2 * uniformity, rtol=1e-12, atol=1e-14)


def mean_over_subsets(objective: Objective, z1: Tensor, z2: Tensor, size: int) -> float:
    subsets = [list(s) for s in itertools.combinations(range(len(z1)), size)]
    return sum(objective(z1[s], z2[s]).item() for s in subsets) / len(subsets)


@pytest.mark.parametrize("both", [False, True], ids=["anchor", "both"])
@pytest.mark.parametrize("params", [p for p, *_ in KERNEL_SLOPES], ids=[p["kernel"] for p, *_ in KERNEL_SLOPES])
def test_kcl_is_the_mean_over_its_subsets_whatever_the_kernel(params: Params, both: bool) -> None:
    objective = hs.create_objective("kcl", views="both" if both else "anchor", **params)
    z1, z2 = views(6, 4)
    for size in (2, 4, 5):
        found = mean_over_subsets(objective, z1, z2, size)
        assert found == pytest.approx(objective(z1, z2).item(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["infonce", "dhel"])
@pytest.mark.parametrize("size", [2, 4])
def test_infonce_and_dhel_depend_on_the_batch_size_beyond_a_constant(name: str, size: int) -> None:
    objective = hs.create_objective(name)
    z1, z2 = views(6, 4)
    small = mean_over_subsets(objective, z1, z2, size) - math.log(size - 1)
    assert abs(small - (objective(z1, z2).item() - math.log(5))) > 1e-2
