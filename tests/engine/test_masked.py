"""Masked reductions against numpy, row by row over the columns that count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from hypersphere.engine import (
    count,
    masked_logsumexp,
    masked_max,
    masked_mean,
    masked_min,
    masked_softmax,
    masked_sum,
)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, columns, generator=generator) < 0.6
    mask[:, draw(st.integers(0, columns - 1))] = True
    return x, mask


@settings(max_examples=60, deadline=None)
@given(blocks(), st.sampled_from([0.2, 1.0, 20.0, 200.0]))
def test_reductions_equal_numpy(block: tuple[torch.Tensor, torch.Tensor], scale: float) -> None:
    x, mask = block
    for row, (values, keep) in enumerate(zip(x.numpy(), mask.numpy(), strict=True)):
        chosen = values[keep]
        assert masked_logsumexp(x, mask, scale)[row].item() == pytest.approx(logsumexp(scale * chosen), abs=1e-10)
        assert masked_max(x, mask)[row].item() == chosen.max()
        assert masked_min(x, mask)[row].item() == chosen.min()
        assert masked_sum(x, mask)[row].item() == pytest.approx(chosen.sum(), abs=1e-12)
        assert masked_mean(x, mask)[row].item() == pytest.approx(chosen.mean(), abs=1e-12)
        assert count(mask)[row].item() == len(chosen)
        for tracked in (x, x.clone().requires_grad_()):
            share = masked_softmax(tracked, mask, scale)[row].detach().numpy()
            np.testing.assert_allclose(share[keep], softmax(scale * chosen), atol=1e-13)
            assert (share[~keep] == 0).all()


@settings(max_examples=25, deadline=None)
@given(blocks())
def test_logsumexp_gradients_to_second_order(block: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, mask = block
    scale = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, s: masked_logsumexp(a, mask, s), (x, scale))
    assert torch.autograd.gradgradcheck(lambda a, s: masked_logsumexp(a, mask, s), (x, scale))


def test_excluded_columns_get_no_gradient_however_large() -> None:
    x = torch.tensor([[1e30, 0.0, 1.0]], requires_grad=True)
    mask = torch.tensor([[False, True, True]])
    for reduce in (masked_logsumexp, masked_max, masked_min, masked_sum, masked_mean):
        (slope,) = torch.autograd.grad(reduce(x, mask).sum(), [x])
        assert slope[0, 0] == 0
        assert slope.isfinite().all()


def test_no_cancellation_where_the_excluded_column_dominates() -> None:
    """e^{1/0.005} is 10^86: subtracting the diagonal from a full sum would leave nothing."""
    x = torch.tensor([[1.0, 0.0, -0.1]])
    mask = torch.tensor([[False, True, True]])
    assert masked_logsumexp(x, mask, 200.0).item() == pytest.approx(np.log1p(np.exp(-20.0)), abs=1e-7)


def test_a_row_in_which_nothing_counts_is_infinitely_low_and_passes_no_nan() -> None:
    x = torch.zeros(1, 3, requires_grad=True)
    value = masked_logsumexp(x, torch.zeros(1, 3, dtype=torch.bool), 2.0)
    assert value.item() == -np.inf
    (slope,) = torch.autograd.grad(torch.logaddexp(value, torch.zeros(1)).sum(), [x])
    assert (slope == 0).all()
