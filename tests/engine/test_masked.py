"""Masked reductions against numpy, row by row over the columns that count."""

from __future__ import annotations

from contextlib import nullcontext

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
from hypersphere.engine.listed import Listed, differentiated_once
from hypersphere.engine.mask import fill, filled, mask_except


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


@settings(max_examples=25, deadline=None)
@given(blocks(), st.sampled_from([SOFTPLUS, LOGARITHM]))
def test_sums_of_a_curve_equal_numpy_and_have_gradients_to_second_order(block, curve) -> None:
    x, mask = block
    scale, shift = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 9.0))  # above 0 for the log
    with torch.no_grad():
        found = masked_sum_of(curve, x, mask, scale, shift)
    a = 0.3 * x.numpy() + 9.0
    expected = np.where(mask.numpy(), np.logaddexp(0, a) if curve is SOFTPLUS else np.log(a), 0).sum(axis=1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    x.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *inputs: masked_sum_of(curve, inputs[0], mask, *inputs[1:]), (x, scale, shift)
    )
    assert torch.autograd.gradgradcheck(
        lambda *inputs: masked_sum_of(curve, inputs[0], mask, *inputs[1:]), (x, scale, shift)
    )
    # The same numbers where the graph's memory is reused, with learned numbers and with fixed ones.
    plain = torch.autograd.grad(masked_sum_of(curve, x, mask, scale, shift).square().sum(), [x, scale, shift])
    with differentiated_once([]):
        again = torch.autograd.grad(masked_sum_of(curve, x, mask, scale, shift).square().sum(), [x, scale, shift])
        fixed = torch.autograd.grad(masked_sum_of(curve, x, mask, 0.3, 9.0).square().sum(), x)
    for one, other in zip([*plain, plain[0]], [*again, *fixed], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_a_weighted_sum_moves_its_second_argument_only() -> None:
    weight, x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64)
    kept, along = weight.detach().clone(), torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    for context in (nullcontext(), differentiated_once([])):
        leaf = x.clone().requires_grad_()
        with context:
            value = weighted_sum(weight * 1.0, leaf)
        np.testing.assert_allclose(value.detach().numpy(), (kept * x).numpy().sum(axis=1))
        (slope,) = torch.autograd.grad(value @ along, leaf)
        np.testing.assert_allclose(slope.numpy(), kept.numpy() * along.numpy()[:, None])


@pytest.mark.parametrize("holds", [True, False])
def test_a_mask_that_knows_its_exceptions_does_what_any_mask_does(holds: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(5, 40, generator=generator, dtype=torch.float64)
    rows, columns = (
        torch.arange(5).repeat_interleave(3),
        torch.rand(5, 40, generator=generator).topk(3).indices.flatten(),
    )
    knowing = mask_except(rows, columns, (5, 40), holds)
    x[rows[0], columns[0]] = torch.inf if not holds else 2.0  # what does not count may be anything
    plain = knowing.clone()
    assert int(plain.sum()) == (15 if holds else 185)
    assert torch.equal(count(knowing).long(), count(plain).long())
    assert torch.equal(filled(x, knowing, -7.0), filled(x, plain, -7.0))
    assert torch.equal(fill(x.clone(), knowing, -7.0), filled(x, plain, -7.0))
    weights = torch.randn(5, generator=generator, dtype=torch.float64)
    for reduction in (masked_sum, masked_logsumexp, masked_max, masked_mean, masked_min):
        slopes = []
        for mask in (knowing, plain):
            leaf = x.clone().requires_grad_()
            with differentiated_once([leaf]) as few:
                value = reduction(leaf, mask)
            slopes.append((value.detach(), _whole_gradient(value @ weights, leaf, few)))
        for one, other in zip(*slopes, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-14)


def test_a_mask_that_was_changed_forgets_what_it_knew() -> None:
    mask = mask_except(torch.arange(3), torch.arange(3), (3, 6), holds=False)
    mask[:, 5] = False
    assert count(mask).tolist() == [4, 4, 4]
    assert masked_sum(torch.ones(3, 6), mask).tolist() == [4, 4, 4]
    with torch.inference_mode():
        seen = mask_except(torch.arange(3), torch.arange(3), (3, 6), holds=False)
        assert masked_sum(torch.ones(3, 6), seen).tolist() == [5, 5, 5]


@pytest.mark.parametrize("columns", [1, 511, 512, 513, 700, 1024])
@pytest.mark.parametrize("reduction", [masked_max, masked_min])
def test_the_extreme_of_a_long_row_is_found_and_moved(columns: int, reduction) -> None:
    generator = torch.Generator().manual_seed(columns)
    x = torch.randint(-60, 60, (300, columns), generator=generator).double()  # with ties
    mask = mask_except(torch.arange(300), torch.arange(300) % columns, (300, columns), holds=False)
    expected = np.where(mask.numpy(), x.numpy(), -np.inf if reduction is masked_max else np.inf)
    expected = expected.max(axis=1) if reduction is masked_max else expected.min(axis=1)
    for once in (False, True):
        leaf = x.clone().requires_grad_()
        with differentiated_once([leaf], once) as few:
            value = reduction(leaf, mask)
        assert np.array_equal(value.detach().numpy(), expected)
        slope = _whole_gradient(value.sum(), leaf, few)
        assert torch.equal(slope.sum(dim=1), torch.isfinite(value).double())  # one entry of each row, if any counts
        assert torch.equal(x[slope == 1], value.detach()[torch.isfinite(value)])
        assert not slope[~mask].any()


def _whole_gradient(value: torch.Tensor, leaf: torch.Tensor, few: list[Listed]) -> torch.Tensor:
    """As the engine puts it together."""
    (slope,) = torch.autograd.grad(value, leaf, allow_unused=True)
    slope = torch.zeros_like(leaf) if slope is None else slope
    for listed in few:
        assert listed.leaf is leaf
        for matrix in listed.scaled:
            matrix.write_to(slope, add=True)
        for entries in listed.few:
            entries.add_to(slope)
    return slope


def test_few_entries_of_a_gradient_are_listed_for_leaves_only() -> None:
    """An objective may do anything to similarities before it reduces them."""
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    mask = mask_except(torch.arange(3), torch.arange(3), (3, 4), holds=True)
    with differentiated_once([x]) as few:
        value = masked_sum(x.T.exp().T, mask) + masked_max(x.T.exp().T, mask)
    (slope,) = torch.autograd.grad(value.sum(), x)
    assert not few[0].few and not few[0].scaled
    torch.testing.assert_close(slope, torch.where(mask, 2 * x.detach().exp(), 0))


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
        with differentiated_once([leaf]) as listed:
            value = masked_logsumexp(leaf, mask)
            share = masked_softmax(leaf.detach(), mask)
        np.testing.assert_allclose(value.detach(), expected, rtol=digits, atol=digits)
        slack = digits * max(1.0, spread)  # float32 rounds x itself
        np.testing.assert_allclose(share, shares, atol=slack)
        np.testing.assert_allclose(_whole_gradient(value.sum(), leaf, listed), shares, atol=slack)


def test_a_mask_does_not_serve_a_matrix_of_another_width() -> None:
    mask = mask_except(torch.arange(3), torch.arange(3), (3, 4), holds=False)
    for reduction in (masked_sum, masked_logsumexp, masked_max):
        with pytest.raises(RuntimeError):
            reduction(torch.ones(3, 8), mask)


def test_numbers_that_depend_on_each_other_are_differentiated_once_each() -> None:
    x, mask = torch.rand(3, 4, dtype=torch.float64), torch.ones(3, 4, dtype=torch.bool)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda s: masked_sum_of(SOFTPLUS, x, mask, s, -0.5 * s), scale)
    found = torch.autograd.grad(masked_sum_of(SOFTPLUS, x, mask, scale, -0.5 * scale).sum(), scale, create_graph=True)
    expected = torch.autograd.grad(torch.nn.functional.softplus(scale * (x - 0.5)).sum(), scale)
    torch.testing.assert_close(found[0], expected[0])


def test_strips_share_memory_that_nobody_sees() -> None:
    """Of two strips with the same scratch, each with three reductions and a matrix that the formula keeps."""
    scratch: list[torch.Tensor] = []
    kept, places = [], []
    for rows in (5, 3):
        strip, mask = torch.randn(rows, 7), torch.rand(rows, 7) < 0.8
        mask[:, 0] = True
        leaf, plain = strip.clone().requires_grad_(), strip.clone().requires_grad_()
        with differentiated_once([leaf], scratch=scratch) as (listed,):
            share = masked_softmax(leaf.detach(), mask, 3.0)
            kept.append((share, share.clone()))
            value = masked_logsumexp(leaf, mask, 2.0) * masked_logsumexp(leaf, mask, 5.0)
            value = value + masked_sum_of(SOFTPLUS, leaf, mask, 4.0, 1.0)
        (slope,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
        found = torch.zeros_like(strip) if slope is None else slope.clone()
        for each in listed.scaled:
            each.write_to(found, add=True)
        hidden = torch.where(mask, plain, -torch.inf)
        expected = (2 * hidden).logsumexp(dim=1) * (5 * hidden).logsumexp(dim=1)
        expected = expected + torch.where(mask, torch.nn.functional.softplus(4 * plain + 1), 0).sum(dim=1)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(found, *torch.autograd.grad(expected.sum(), plain))
        places.append([memory.data_ptr() for memory in scratch])
    assert len(places[0]) == 3 and places[0] == places[1]
    for share, copy in kept:
        assert torch.equal(share, copy)
