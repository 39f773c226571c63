"""Streamed objectives where somebody else differentiates too: around them, or inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import SOFTPLUS, masked_logsumexp, masked_max, masked_mean, masked_sum_of, weighted_sum
from hypersphere.objectives import PairwiseObjective
from hypersphere.testing.example import views


@pytest.mark.parametrize("name", ["infonce", "ntxent", "met", "siglip"])
def test_checkpoints_recompute_a_streamed_objective(name: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    objective = hs.create_objective(name)
    with hs.streaming(4):
        expected = torch.autograd.grad(objective(z1, z2), [z1, z2])
        loss = torch.utils.checkpoint.checkpoint(lambda a, b: objective(2 * a, 3 * b), z1, z2, use_reentrant=False)
        found = torch.autograd.grad(loss, [z1, z2])  # which runs forward again
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-13)


class DifferentiatesInside(PairwiseObjective):
    """Weighs by gradients of its own, once with and once without a graph."""

    reduced: Any = None

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Tensor:
        with torch.enable_grad():
            value = self.reduced(negatives, mask)
            leaf = negatives if negatives.requires_grad else negatives.detach().requires_grad_()
            again = value if negatives.requires_grad else self.reduced(leaf, mask)
            (inside,) = torch.autograd.grad(again.sum(), leaf, retain_graph=True)
        return value * (inside.detach() ** 2).sum(dim=1) + self.reduced(negatives**2, mask) - positive


REDUCTIONS: dict[str, Any] = {
    "max": masked_max,
    "logsumexp": masked_logsumexp,
    "mean": masked_mean,
    "curve": lambda x, mask: masked_sum_of(SOFTPLUS, x, mask, 2.0, 0.1),
    "weighted": lambda x, mask: weighted_sum(mask.to(x), x) + masked_logsumexp(x, mask),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_an_objective_may_differentiate_inside(reduction: str) -> None:
    hs.testing.assert_streams_exactly(DifferentiatesInside(reduced=REDUCTIONS[reduction]))
