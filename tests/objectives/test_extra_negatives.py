"""Extra negatives of a symmetric InfoNCE: further keys of one direction, or of both."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.testing.example import views


def sentence_transformers_loss(embeddings: list[torch.Tensor]) -> torch.Tensor:
    """MultipleNegativesRankingLoss in both directions, each with a softmax of its own: what it calls symmetric."""
    pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    both = ("query_to_doc", "doc_to_query")
    loss = MultipleNegativesRankingLoss(nn.Identity(), scale=20.0, directions=both, partition_mode="per_direction")
    found: torch.Tensor = loss.compute_loss_from_embeddings(embeddings, torch.empty(0))
    return found


@pytest.mark.parametrize("size", [6, 1])
def test_hard_negatives_are_those_of_sentence_transformers(size: int) -> None:
    anchors, positives = (z.requires_grad_() for z in views(size, 5))
    hard = views(size, 5, seed=3)[0].requires_grad_()
    given = [anchors, positives, hard]
    theirs = sentence_transformers_loss(given)
    ours = hs.create_objective("infonce", temperature=1 / 20, symmetric=True)(anchors, positives, negatives=hard)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)
    for one, other in zip(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_by_hand_the_second_direction_meets_extra_negatives_only_if_asked() -> None:
    """Orthogonal rows at temperature 1: an anchor's positive is at cosine 1, all its negatives are at 0."""
    x, extra = torch.eye(5)[:2], torch.eye(5)[2:]
    without, with_extra = math.log(1 + 1 / math.e), math.log(1 + 4 / math.e)
    for settings, expected in (
        ({"symmetric": True}, (with_extra + without) / 2),
        ({"symmetric": True, "extra_negatives": "both"}, with_extra),
        ({}, with_extra),
    ):
        found = hs.create_objective("infonce", temperature=1.0, **settings)
        assert found(x, x, negatives=extra).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("extra_negatives", ["first", "both"])
@pytest.mark.parametrize("temperature", [0.5, 0.01])  # by sums of exponentials, and too cold for them
def test_either_choice_streams_and_distributes(extra_negatives: str, temperature: float) -> None:
    objective = hs.create_objective(
        "infonce", symmetric=True, extra_negatives=extra_negatives, temperature=temperature, learnable=True
    )
    hs.testing.assert_streams_exactly(objective)
    hs.testing.assert_distributed_exact(objective)


def test_the_choice_is_printed_where_it_is_not_the_usual_one() -> None:
    assert "extra" not in repr(hs.create_objective("infonce", symmetric=True))
    assert "extra_negatives='both'" in repr(hs.create_objective("infonce", extra_negatives="both"))
