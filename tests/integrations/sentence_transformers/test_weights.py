"""Negatives that count more than others, as SimCSE and sentence-transformers weigh them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

from hypersphere.integrations.sentence_transformers import Loss
from tests.integrations.sentence_transformers.steps import (
    N1,
    N2,
    A,
    P,
    assert_same,
    by_loops,
    features,
    step,
)


def test_hard_negatives_are_weighted_as_simcse_weighs_them(model: SentenceTransformer) -> None:
    loss = Loss(model, "infonce", temperature=0.05, hard_negative_weight=1.5)
    expected = by_loops(model, (A, P, N1, N2), lambda *_: False, 0.05, 1.5)
    assert math.isclose(step(loss, A, P, N1, N2)["value"], expected, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("settings", "mode", "columns"),
    [
        ({"hardness": 9.0}, "in_batch_negatives", (A, P)),
        ({"hardness": 5.0, "hardness_on": "hard"}, "hard_negatives", (A, P, N1, N2)),
        ({"hardness": 5.0, "hardness_on": "all"}, "all_negatives", (A, P, N1, N2)),
    ],
)
def test_harder_negatives_count_as_in_multiple_negatives_ranking(
    model: SentenceTransformer, settings: dict[str, Any], mode: str, columns: Any
) -> None:
    theirs = MultipleNegativesRankingLoss(model, scale=20.0, hardness_mode=mode, hardness_strength=settings["hardness"])
    assert_same(step(Loss(model, "infonce", temperature=0.05, **settings), *columns), step(theirs, *columns))


def test_weights_that_do_not_apply_are_refused_in_one_sentence(model: SentenceTransformer) -> None:
    for settings, words in [
        ({"objective": "met", "hardness": 1.0}, "has no softmax over its negatives"),
        ({"objective": "vicreg", "hard_negative_weight": 1.0}, "has no negatives"),
        ({"hardness": 1.0, "hardness_on": "every"}, "hardness_on must be"),
        ({"hardness": -1.0}, "hardness must be at least 0, not -1.0"),
    ]:
        with pytest.raises(ValueError, match=words):
            Loss(model, **settings)
    with pytest.raises(ValueError, match="add a column of them"):
        Loss(model, hard_negative_weight=1.0)(features(model, A, P), None)
