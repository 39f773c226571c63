"""A guide drops the negatives that GISTEmbed drops."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    GISTEmbedLoss,
)

from hypersphere.integrations.sentence_transformers import Loss
from tests.evaluation.tiny_model import write_tiny_model
from tests.integrations.sentence_transformers.steps import (
    N1,
    A,
    P,
    assert_same,
    features,
    step,
)


def test_a_guide_is_gistembeds(folder: Path, model: SentenceTransformer) -> None:
    guide = write_tiny_model(folder.parent / "guide", seed=7)
    ours = Loss(model, "infonce", pool="all", temperature=0.1, guide=SentenceTransformer(str(guide), device="cpu"))
    theirs = GISTEmbedLoss(model, SentenceTransformer(str(guide), device="cpu"), temperature=0.1)
    model.eval()
    expected = step(theirs, A, P, N1)
    assert_same(step(ours, A, P, N1), {name: grad for name, grad in expected.items() if not name.startswith("guide")})
    plain = step(Loss(model, "infonce", pool="all", temperature=0.1), A, P, N1)
    assert plain["value"] > expected["value"] + 0.1  # the guide drops some negatives


def test_a_guide_that_does_not_fit_is_refused_in_one_sentence(model: SentenceTransformer) -> None:
    for settings, words in [
        ({"objective": "xclr"}, "needs a guide: give guide= a SentenceTransformer"),
        ({"guide": "all"}, "guide must be a SentenceTransformer"),
        ({"guide": 3}, "guide must be a SentenceTransformer or a function of texts, not int"),
        ({"guide_margin": 0.1}, "guide_margin and guide_strategy go with guide="),
    ]:
        with pytest.raises(ValueError, match=words):
            Loss(model, **settings)
    for guide, words in [
        (lambda texts: texts, "the guide must return a tensor of embeddings"),
        (lambda texts: torch.ones(3, 4), "one embedding for each of the 8 texts"),
    ]:
        with pytest.raises(ValueError, match=words):
            Loss(model, guide=guide)(features(model, A, P), None)
