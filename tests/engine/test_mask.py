"""Masks that know where their few exceptions are do what any mask does."""

from __future__ import annotations

import pytest
import torch

from hypersphere.engine import count, masked_logsumexp, masked_max, masked_mean, masked_min, masked_sum
from hypersphere.engine.mask import fill, filled, mask_except


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
        grads = []
        for mask in (knowing, plain):
            leaf = x.clone().requires_grad_()
            value = reduction(leaf, mask)
            grads.append((value.detach(), *torch.autograd.grad(value @ weights, leaf)))
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-14)


def test_a_mask_that_was_changed_forgets_what_it_knew() -> None:
    mask = mask_except(torch.arange(3), torch.arange(3), (3, 6), holds=False)
    mask[:, 5] = False
    assert count(mask).tolist() == [4, 4, 4]
    assert masked_sum(torch.ones(3, 6), mask).tolist() == [4, 4, 4]
    with torch.inference_mode():
        seen = mask_except(torch.arange(3), torch.arange(3), (3, 6), holds=False)
        assert masked_sum(torch.ones(3, 6), seen).tolist() == [5, 5, 5]


def test_a_mask_does_not_serve_a_matrix_of_another_width() -> None:
    mask = mask_except(torch.arange(3), torch.arange(3), (3, 4), holds=False)
    for reduction in (masked_sum, masked_logsumexp, masked_max):
        with pytest.raises(RuntimeError):
            reduction(torch.ones(3, 8), mask)
