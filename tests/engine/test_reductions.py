"""Masked reductions against numpy, row by row over the columns that count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from hypersphere.engine import (
    LOGARITHM,
    SOFTPLUS,
    count,
    masked_logsumexp,
    masked_max,
    masked_mean,
    masked_min,
    masked_softmax,
    masked_sum,
    masked_sum_of,
    weighted_sum,
)
from hypersphere.engine.mask import mask_except


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
        (grad,) = torch.autograd.grad(reduce(x, mask).sum(), [x])
        assert grad[0, 0] == 0
        assert grad.isfinite().all()


def test_no_cancellation_where_the_excluded_column_dominates() -> None:
    """e^{1/0.005} is 10^86: subtracting the diagonal from a full sum would leave nothing."""
    x = torch.tensor([[1.0, 0.0, -0.1]])
    mask = torch.tensor([[False, True, True]])
    assert masked_logsumexp(x, mask, 200.0).item() == pytest.approx(np.log1p(np.exp(-20.0)), abs=1e-7)


def test_a_row_in_which_nothing_counts_is_infinitely_low_and_passes_no_nan() -> None:
    x = torch.zeros(1, 3, requires_grad=True)
    value = masked_logsumexp(x, torch.zeros(1, 3, dtype=torch.bool), 2.0)
    assert value.item() == -np.inf
    (grad,) = torch.autograd.grad(torch.logaddexp(value, torch.zeros(1)).sum(), [x])
    assert (grad == 0).all()


@settings(max_examples=25, deadline=None)
@given(blocks(), st.sampled_from([SOFTPLUS, LOGARITHM]))
def test_sums_of_a_curve_equal_numpy_and_have_gradients_to_second_order(block, curve) -> None:
    x, mask = block
    scale, shift = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 9.0))  # above 0 for the log
    with torch.no_grad():
        sums = masked_sum_of(curve, x, mask, scale, shift)
    a = 0.3 * x.numpy() + 9.0
    expected = np.where(mask.numpy(), np.logaddexp(0, a) if curve is SOFTPLUS else np.log(a), 0).sum(axis=1)
    np.testing.assert_allclose(sums.numpy(), expected, rtol=1e-12)
    x.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *inputs: masked_sum_of(curve, inputs[0], mask, *inputs[1:]), (x, scale, shift)
    )
    assert torch.autograd.gradgradcheck(
        lambda *inputs: masked_sum_of(curve, inputs[0], mask, *inputs[1:]), (x, scale, shift)
    )
    # The same where the graph is kept, with learned numbers and with fixed ones.
    value = masked_sum_of(curve, x, mask, scale, shift).square().sum()
    kept, freed = (torch.autograd.grad(value, [x, scale, shift], retain_graph=keep) for keep in (True, False))
    fixed = torch.autograd.grad(masked_sum_of(curve, x, mask, 0.3, 9.0).square().sum(), x)
    for one, other in zip([*kept, kept[0]], [*freed, *fixed], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_a_weighted_sum_moves_its_second_argument_only() -> None:
    weight, x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64)
    along = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    for one in (weight * 1.0, weight[:1].expand(3, 4)):
        kept = one.detach().clone()
        leaf = x.clone().requires_grad_()
        value = weighted_sum(one, leaf)
        np.testing.assert_allclose(value.detach().numpy(), (kept * x).numpy().sum(axis=1))
        (grad,) = torch.autograd.grad(value @ along, leaf)
        np.testing.assert_allclose(grad.numpy(), kept.numpy() * along.numpy()[:, None])


@pytest.mark.parametrize("columns", [1, 511, 512, 513, 700, 1024])
@pytest.mark.parametrize("reduction", [masked_max, masked_min])
def test_the_extreme_of_a_long_row_is_found_and_moved(columns: int, reduction) -> None:
    generator = torch.Generator().manual_seed(columns)
    x = torch.randint(-60, 60, (300, columns), generator=generator).double()  # with ties
    mask = mask_except((torch.arange(300), torch.arange(300) % columns), (300, columns), False, torch.device("cpu"))
    expected = np.where(mask.numpy(), x.numpy(), -np.inf if reduction is masked_max else np.inf)
    expected = expected.max(axis=1) if reduction is masked_max else expected.min(axis=1)
    leaf = x.clone().requires_grad_()
    value = reduction(leaf, mask)
    assert np.array_equal(value.detach().numpy(), expected)
    (grad,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.equal(grad.sum(dim=1), torch.isfinite(value).double())  # one entry of each row, if any counts
    assert torch.equal(x[grad == 1], value.detach()[torch.isfinite(value)])
    assert not grad[~mask].any()


@pytest.mark.parametrize("spread", [0.0, 30.0, 50.0, 200.0, 2000.0])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_rows_far_from_each_other_do_not_share_a_reference(spread: float, first: int) -> None:
    """One number is taken from all exponents of a strip only where that costs no digits."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(3, 8, generator=generator, dtype=torch.float64) + spread * torch.tensor([[0.0], [1.0], [-1.0]])
    x = x.roll(first, 0)
    mask = torch.rand(3, 8, generator=generator) < 0.7
    x[~mask] += spread  # what does not count
    expected = [logsumexp(row[m]) for row, m in zip(x.numpy(), mask.numpy(), strict=True)]
    shares = [softmax(np.where(m, row, -np.inf)) for row, m in zip(x.numpy(), mask.numpy(), strict=True)]
    for dtype, digits in ((torch.float64, 1e-13), (torch.float32, 3e-6)):
        leaf = x.clone().to(dtype).requires_grad_()
        value = masked_logsumexp(leaf, mask)
        share = masked_softmax(leaf.detach(), mask)
        np.testing.assert_allclose(value.detach(), expected, rtol=digits, atol=digits)
        slack = digits * max(1.0, spread)  # float32 rounds x itself
        np.testing.assert_allclose(share, shares, atol=slack)
        np.testing.assert_allclose(*torch.autograd.grad(value.sum(), leaf), shares, atol=slack)


def test_numbers_that_depend_on_each_other_are_differentiated_once_each() -> None:
    x, mask = torch.rand(3, 4, dtype=torch.float64), torch.ones(3, 4, dtype=torch.bool)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda s: masked_sum_of(SOFTPLUS, x, mask, s, -0.5 * s), scale)
    grads = torch.autograd.grad(masked_sum_of(SOFTPLUS, x, mask, scale, -0.5 * scale).sum(), scale, create_graph=True)
    expected = torch.autograd.grad(torch.nn.functional.softplus(scale * (x - 0.5)).sum(), scale)
    torch.testing.assert_close(grads[0], expected[0])


@pytest.mark.parametrize("reduction", [masked_logsumexp, masked_sum, masked_mean, masked_max])
def test_a_graph_that_is_kept_gives_the_same_gradient_again(reduction) -> None:
    """Where the graph is freed, backward may overwrite what it saved; where it is kept, it may not."""
    x = torch.randn(5, 9, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(5, 9) < 0.8
    mask[:, 0] = True
    value = reduction(x, mask).square().sum()
    first, again, last = (torch.autograd.grad(value, x, retain_graph=keep)[0] for keep in (True, True, False))
    assert torch.equal(first, again) and torch.equal(first, last)
