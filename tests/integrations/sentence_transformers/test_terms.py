"""The terms of a loss beside it, in the losses of sentence-transformers that hold another."""

from __future__ import annotations

import math
import random

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    AdaptiveLayerLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)

from hypersphere.integrations.sentence_transformers import Loss
from hypersphere.integrations.sentence_transformers.terms import Terms
from tests.integrations.sentence_transformers.steps import (
    DIM_WEIGHTS,
    DIMS,
    N1,
    A,
    P,
    assert_same,
    features,
    step,
)


def test_matryoshka_and_adaptive_layers_hold_the_loss_as_their_own(model: SentenceTransformer) -> None:
    for around in (
        lambda loss: MatryoshkaLoss(model, loss, DIMS, DIM_WEIGHTS),
        lambda loss: AdaptiveLayerLoss(model, loss),
    ):
        results = []
        for inner in (Loss(model, "infonce", temperature=0.05), MultipleNegativesRankingLoss(model)):
            random.seed(0)
            results.append(step(around(inner), A, P, N1))
        assert_same(*results)
    terms = MatryoshkaLoss(model, Loss(model, "infonce"), DIMS)(features(model, A, P), None)
    assert math.isclose(sum(float(term) for _, term in terms.items()), terms.loss.item(), rel_tol=1e-5)


def test_terms_are_a_loss_that_is_added_and_multiplied() -> None:
    """And the trainer, which logs the items and sums the values, sums the loss alone."""
    loss = torch.tensor(3.0, requires_grad=True)
    first, second = Terms(loss, {"pull": torch.tensor(1.0)}), Terms(2 * loss, {"pull": torch.tensor(4.0)})
    total = sum([2 * first, second / 4, torch.tensor(0.5)])
    assert isinstance(total, Terms)
    assert total.loss.item() == 2 * 3 + 6 / 4 + 0.5 and total["pull"].item() == 2 * 1 + 4 / 4
    assert sum(total.values()) == total.loss
    total.loss.backward()
    assert loss.grad is not None and loss.grad.item() == 2 + 2 / 4
