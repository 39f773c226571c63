"""Loop 3: any formula, strip by strip, against the plain autograd graph of the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import Anchors, masked_logsumexp, masked_max, weighted_sum
from hypersphere.objectives import PairwiseObjective
from hypersphere.testing.example import views
from tests.engine.streaming.test_logsumexp import assert_same, values_and_gradients


class HardestOfTwo(PairwiseObjective):
    """One entry a row, of two matrices."""

    negatives = ("cross", "same")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        return masked_max(negatives[0], mask[0]) ** 2 - positive * masked_max(negatives[1], mask[1])


class HardestAndAll(PairwiseObjective):
    """One entry a row beside a whole gradient."""

    negatives = "both"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        hardest = masked_max(negatives, mask)
        return hardest + (negatives**3).sum(dim=1) + masked_logsumexp(negatives, mask, 3.0) - positive


class WeighedByItself(PairwiseObjective):
    """Weights that are the similarities' own memory, whose gradient is written there too."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        return masked_logsumexp(negatives, mask, 5.0) + weighted_sum(negatives.detach(), negatives) - positive


class WeighedByAnother(PairwiseObjective):
    negatives = ("cross", "same")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        cross, same = negatives
        first = masked_logsumexp(cross, mask[0], 2.0) + weighted_sum(same.detach(), cross)
        return first + weighted_sum(cross.detach(), same) + masked_max(same, mask[1]) - positive


class SometimesBoth(PairwiseObjective):
    """The second matrix carries a gradient in some strips only, and its loss has terms with and without it."""

    negatives = ("cross", "same")

    def block(self, anchors: Anchors) -> dict[str, Tensor]:
        energy = masked_logsumexp(anchors.negatives[0], anchors.masks[0], 3.0)
        within = masked_logsumexp(anchors.negatives[1], anchors.masks[1], 2.0)
        late = int(anchors.indices[0]) // 17 % 2 == 1
        within = within if late else within.detach()
        return {"loss": energy + within - anchors.positive, "energy": energy, "within": within}


OBJECTIVES = [HardestOfTwo(), HardestAndAll(), WeighedByItself(), WeighedByAnother()]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: type(objective).__name__)
@pytest.mark.parametrize("extra", [0, 40])
def test_strips_have_the_gradient_of_the_whole(objective: PairwiseObjective, extra: int) -> None:
    z1, z2 = (z.requires_grad_() for z in views(60, 5))
    negatives = views(extra, 5, seed=4)[0].requires_grad_() if extra else None
    with hs.dense():
        expected = values_and_gradients(objective, z1, z2, negatives)
    with hs.streaming(17):
        streamed = values_and_gradients(objective, z1, z2, negatives)
    assert_same(streamed, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("block_rows", [17, 34, 60])
def test_a_gradient_that_exists_in_some_strips_only_is_zero_in_the_others(
    block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strips of 17 rows in blocks of one, two or four strips; each term has a gradient of its own."""
    monkeypatch.setattr(
        "hypersphere.engine.streaming.general.block_sizes", lambda widths, rows, device: (block_rows, 17)
    )
    z1, z2 = (z.requires_grad_() for z in views(60, 5))
    with hs.streaming(17):
        terms = SometimesBoth().terms(z1, z2)
    h, g = (torch.nn.functional.normalize(z) for z in (z1, z2))
    others = ~torch.eye(60, dtype=torch.bool)
    energy, within = (
        (scale * (h @ keys.T)).masked_fill(~others, -torch.inf).logsumexp(dim=1) for scale, keys in ((3.0, g), (2.0, h))
    )
    late = torch.arange(60) // 17 % 2 == 1
    within = torch.where(late, within, within.detach())
    # Rows of a late strip move their keys in early strips too.
    expected = {"loss": (energy + within - (h * g).sum(dim=1)).mean(), "energy": energy.mean(), "within": within.mean()}
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, rtol=1e-12, atol=1e-12)
        ours, plain = (torch.autograd.grad(v, [z1, z2], retain_graph=True, materialize_grads=True)
                       for v in (terms[name], value))  # fmt: skip
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-13)
