"""DCL and DCL+ beside InfoNCE, for every anchor."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from torch import Tensor

from tests.theory import SLACK, TEMPERATURES, batches, per_anchor


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
