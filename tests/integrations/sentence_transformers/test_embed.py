"""Embeddings in chunks: the cached form is the plain one, and no text is embedded or kept in vain."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import column_merging_disabled
from sentence_transformers.sentence_transformer.losses import (
    AdaptiveLayerLoss,
    MatryoshkaLoss,
)
from torch import nn

from hypersphere.integrations.sentence_transformers import Loss
from tests.integrations.sentence_transformers.steps import (
    DIM_WEIGHTS,
    DIMS,
    N1,
    N2,
    A,
    P,
    assert_same,
    features,
    opened,
    step,
    value_of,
)


@pytest.mark.parametrize("around", [None, "matryoshka"])
def test_the_cached_form_is_the_plain_one(folder: Path, around: str | None) -> None:
    """With dropout, a learned temperature, weights of dimensions and a factor, as accumulation and fp16 have it."""
    noisy, results = opened(folder, dropout=0.2).train(), []
    for size in (None, 8):  # one chunk, so that dropout draws the same numbers
        loss: nn.Module = Loss(noisy, "infonce", temperature=0.1, learnable=True, mini_batch_size=size)
        if around:
            loss = MatryoshkaLoss(noisy, loss, DIMS, DIM_WEIGHTS)
        torch.manual_seed(0)
        with column_merging_disabled():  # one pass for each column, as in the cached form: the same numbers again
            results.append(step(loss, A, P, N1, factor=0.25))
    assert any(name.endswith("log_temperature") for name in results[0])
    assert_same(*results)
    exact = opened(folder)
    whole, *small = [
        step(Loss(exact, "dhel", learnable=True, **limit), A, P, N1)
        for limit in ({}, {"mini_batch_size": 3}, {"mini_batch_num_tokens": 20}, {"mini_batch_num_tokens": 1})
    ]
    for each in small:
        assert_same(whole, each)


def test_a_part_of_a_batch_has_so_many_tokens_and_no_padding_of_the_rest(folder: Path) -> None:
    model, seen = opened(folder), []
    forward = model.forward

    def watched(column: dict[str, Any], **kwargs: Any) -> Any:
        seen.append(column["attention_mask"])
        return forward(column, **kwargs)

    model.forward = watched  # type: ignore[method-assign]
    columns = features(model, A, P)
    with torch.no_grad():
        Loss(model, mini_batch_num_tokens=20)(columns, None)
    for column in columns:
        lengths = column["attention_mask"].sum(dim=1).tolist()
        while lengths:
            part = seen.pop(0)
            assert part.sum(dim=1).tolist() == lengths[: len(part)]
            assert part.any(dim=0).all()
            assert part.sum() <= 20 < part.sum() + (lengths[len(part) :] or [20])[0]
            del lengths[: len(part)]
    assert not seen


def test_positives_and_hard_negatives_are_embedded_in_one_pass(folder: Path) -> None:
    model, rows = opened(folder), []
    forward = model.forward

    def watched(column: dict[str, Any], **kwargs: Any) -> Any:
        rows.append(len(column["input_ids"]))
        return forward(column, **kwargs)

    model.forward = watched  # type: ignore[method-assign]
    Loss(model)(features(model, A, P, N1, N2), None)
    assert rows == [8, 24]


def test_a_batch_is_freed_after_its_step(model: SentenceTransformer) -> None:
    for limit in (None, 3):
        loss = Loss(model, mini_batch_size=limit)
        columns = features(model, A, P)
        texts = [weakref.ref(column["input_ids"]) for column in columns]
        value_of(loss(columns, None)).backward()
        del columns
        gc.collect()
        assert all(text() is None for text in texts)


def test_a_wrapper_of_layers_refuses_the_cached_form_in_one_sentence(model: SentenceTransformer) -> None:
    with pytest.warns(UserWarning, match="not compatible"):
        layers = AdaptiveLayerLoss(model, Loss(model, mini_batch_size=2))
    with pytest.raises(ValueError, match="mini_batch_size prevents: leave it out"):
        layers(features(model, A, P), None)
