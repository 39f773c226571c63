"""Masks that know where their few exceptions are do what any mask does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hypersphere.engine import count, masked_logsumexp, masked_max, masked_mean, masked_min, masked_sum
from hypersphere.engine.mask import CHUNK, Diagonals, argmax, fill_outside, filled_outside, mask_except

CPU = torch.device("cpu")


def columns_of_each_row() -> tuple[torch.Tensor, torch.Tensor]:
    """Three columns of each of five rows."""
    draws = torch.rand(5, 40, generator=torch.Generator().manual_seed(3))
    return torch.arange(5).repeat_interleave(3), draws.topk(3).indices.flatten()


@pytest.mark.parametrize(
    ("entries", "holds"),
    [(columns_of_each_row(), True), (columns_of_each_row(), False), (Diagonals((0, 17, 35)), False)],
)
def test_a_mask_that_knows_its_exceptions_does_what_any_mask_does(entries: Any, holds: bool) -> None:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(5, 40, generator=generator, dtype=torch.float64)
    knowing = mask_except(entries, (5, 40), holds, CPU)
    plain = knowing.clone()
    assert int(plain.sum()) == (15 if holds else 185)
    i, j = (~plain).nonzero()[0].tolist()
    x[i, j] = torch.inf  # what does not count may be anything
    assert torch.equal(count(knowing).long(), count(plain).long())
    assert torch.equal(filled_outside(x, knowing, -7.0), filled_outside(x, plain, -7.0))
    assert torch.equal(fill_outside(x.clone(), knowing, -7.0), filled_outside(x, plain, -7.0))
    weights = torch.randn(5, generator=generator, dtype=torch.float64)
    for reduction in (masked_sum, masked_logsumexp, masked_max, masked_mean, masked_min):
        grads = []
        for mask in (knowing, plain):
            leaf = x.clone().requires_grad_()
            value = reduction(leaf, mask)
            grads.append((value.detach(), *torch.autograd.grad(value @ weights, leaf)))
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-14)


def test_a_mask_that_was_changed_forgets_what_it_knew() -> None:
    mask = mask_except(Diagonals((0,)), (3, 6), holds=False, device=CPU)
    mask[:, 5] = False
    assert count(mask).tolist() == [4, 4, 4]
    assert masked_sum(torch.ones(3, 6), mask).tolist() == [4, 4, 4]
    with torch.inference_mode():
        seen = mask_except(Diagonals((0,)), (3, 6), holds=False, device=CPU)
        assert masked_sum(torch.ones(3, 6), seen).tolist() == [5, 5, 5]


def test_a_mask_does_not_serve_a_matrix_of_another_width() -> None:
    mask = mask_except(Diagonals((0,)), (3, 4), holds=False, device=CPU)
    for reduction in (masked_sum, masked_logsumexp, masked_max):
        with pytest.raises(RuntimeError):
            reduction(torch.ones(3, 8), mask)


@pytest.mark.parametrize("columns", [1, CHUNK, 2 * CHUNK, 3 * CHUNK + 7])
def test_the_largest_entry_of_a_row_of_any_length_is_found(columns: int) -> None:
    x = torch.randn(6, columns, generator=torch.Generator().manual_seed(1))
    x[0], x[1, -1], x[2, 0] = -torch.inf, 9.0, 9.0  # nothing counts; the last; the first
    column = argmax(x)
    assert column.shape == (6, 1)
    assert torch.equal(x.gather(1, column).squeeze(1), x.amax(dim=1))
