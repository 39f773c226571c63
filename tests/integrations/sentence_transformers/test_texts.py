"""Which texts of a batch are equal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss
from torch import Tensor

import hypersphere as hs
from hypersphere.integrations.sentence_transformers import Callback, Evaluator, Loss
from hypersphere.integrations.sentence_transformers.texts import Unprompted, equal_text_ids, text_hashes
from tests.integrations.sentence_transformers.steps import (
    N1,
    A,
    P,
    arguments,
    by_loops,
    features,
    opened,
    step,
    value_of,
)


def test_texts_that_occur_twice_are_no_negatives(model: SentenceTransformer, caplog: pytest.LogCaptureFixture) -> None:
    a, p, n = [A[0], *A[1:4], A[0]], [*P[:3], P[2], P[4]], [N1[0], P[1], A[3], N1[3], N1[4]]
    related = {0: {0, 4}, 1: {1}, 2: {2, 3}, 3: {2, 3}, 4: {0, 4}}  # 0 and 4 share the anchor, 2 and 3 the document
    hard = {(1, 1), (2, 2), (3, 2)}  # the negative of row 1 is its own document, that of row 2 is the anchor of row 3

    def masked(i: int, column: int, j: int) -> bool:
        return (i, j) in hard if column == 2 else j in related[i]

    loss = Loss(model, "infonce", temperature=0.05)
    assert math.isclose(step(loss, a, p, n)["value"], by_loops(model, (a, p, n), masked, 0.05, 0.0), rel_tol=1e-5)
    step(loss, a, p, n)
    (reported,) = [each.getMessage() for each in caplog.records if "share a text" in each.getMessage()]  # once
    assert "BatchSamplers.NO_DUPLICATES" in reported
    caplog.clear()
    step(Loss(model, "infonce"), A, P, N1)
    all_count = step(Loss(model, "infonce", temperature=0.05, mask_duplicates=False), a, p, n)["value"]
    assert "share a text" not in caplog.text
    assert math.isclose(all_count, by_loops(model, (a, p, n), lambda *_: False, 0.05, 0.0), rel_tol=1e-5)


def test_hashes_depend_on_the_order_of_tokens_and_not_on_their_layout(model: SentenceTransformer) -> None:
    (column,) = features(model, A)
    rows = [ids[mask.bool()] for ids, mask in zip(column["input_ids"], column["attention_mask"], strict=True)]
    offsets = torch.tensor([0, *torch.tensor([len(row) for row in rows]).cumsum(0)[:-1].tolist()])
    assert torch.equal(text_hashes(column), text_hashes({"input_ids": torch.cat(rows), "offsets": offsets}))
    permutations = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]]
    assert len(text_hashes({"input_ids": torch.tensor(permutations)}).unique()) == 6
    assert equal_text_ids([text_hashes(column)], [], gather=True) == {}


PROMPTS = {"anchor": "what is ", "positive": "the ", "negative": "the "}


def twins(model: SentenceTransformer) -> tuple[list[list[str]], list[dict[str, Any]], dict[str, Tensor]]:
    """Three columns, their tokens under prompts, and what is known of them: the document of row 0 is the anchor of row
    3, and the hard negatives of rows 1 and 2 are the anchor of row 5 and the document of row 6."""
    anchors, documents, hard = [*A[:6], *A[6:]], [A[3], *P[1:]], [N1[0], A[5], P[6], *N1[3:]]
    columns = [anchors, documents, hard]
    tokens = [dict(model.preprocess(each, prompt=PROMPTS[name])) for each, name in zip(columns, PROMPTS, strict=True)]
    ids = torch.tensor([0, 1, 2, 0, 4, 5, 6, 7])
    return columns, tokens, {"ids": ids, "ids_negatives": torch.tensor([-1, 5, 6, -1, -1, -1, -1, -1])}


def loss_of_twins(model: SentenceTransformer, columns: list[list[str]], **known: Tensor) -> float:
    z1, z2, negatives = (
        model.encode(each, prompt=PROMPTS[name], convert_to_tensor=True).clone()
        for each, name in zip(columns, PROMPTS, strict=True)
    )
    value: float = hs.create_objective("infonce", temperature=0.05)(z1, z2, negatives=negatives, **known).item()
    return value


def test_a_text_under_two_prompts_is_one_text(model: SentenceTransformer, caplog: pytest.LogCaptureFixture) -> None:
    columns, tokens, known = twins(model)
    unknown = {"ids": torch.arange(8), "ids_negatives": torch.tensor([-1, -1, 6, -1, -1, -1, -1, -1])}
    for prompts, expected, words in [
        (PROMPTS, known, "share a text"),
        (None, unknown, "Columns have different prompts"),  # the two columns of one prompt are compared
    ]:
        caplog.clear()
        loss = Loss(model, "infonce", temperature=0.05, prompts=prompts)
        for _ in range(2):
            value = value_of(loss([dict(each) for each in tokens], None)).item()
        assert math.isclose(value, loss_of_twins(model, columns, **expected), rel_tol=1e-5)
        assert [words in each.getMessage() for each in caplog.records].count(True) == 1
    assert abs(loss_of_twins(model, columns, **known) - loss_of_twins(model, columns)) > 1e-3


@pytest.mark.parametrize("nested", [False, True])
def test_the_callback_gives_a_loss_the_trainers_prompts(folder: Path, tmp_path: Path, nested: bool) -> None:
    model = opened(folder)
    columns, _, known = twins(model)
    expected = loss_of_twins(model, columns, **known)
    data: Any = Dataset.from_dict(dict(zip(PROMPTS, columns, strict=True)))
    loss = MatryoshkaLoss(model, Loss(model, "infonce", temperature=0.05), [16])
    trainer = SentenceTransformerTrainer(
        model=model, train_dataset=DatasetDict(own=data) if nested else data, loss=loss,
        callbacks=[Callback(loss, Evaluator(A, P), echo=lambda _: None)],
        args=arguments(tmp_path, max_steps=1, prompts={"own": PROMPTS} if nested else PROMPTS),
    )  # fmt: skip
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(expected, abs=1e-4)


def test_prompts_that_merge_with_the_text_are_taken_off() -> None:
    """The tokens of bytes: a space belongs to the word that follows it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = ["query: cats purr", "passage: cats purr", "query: dogs", "passage: cats", "query"]
    tokenizer.train_from_iterator(texts * 9, trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False))
    ids = [tokenizer.encode(text).ids for text in texts]
    prompt = tokenizer.encode("query: ").ids
    assert ids[0][: len(prompt)] != prompt  # its last token is not there
    offsets = torch.tensor([0, *torch.tensor([len(each) for each in ids]).cumsum(0)[:-1].tolist()])
    column = {"input_ids": torch.tensor([token for each in ids for token in each]), "offsets": offsets}
    hashes = Unprompted(tokenizer, {"a": "query: ", "b": "passage: "}).hashes(column)
    assert hashes is not None
    assert hashes[0] == hashes[1] and len(hashes.unique()) == 4
    assert Unprompted(tokenizer, None).hashes({"pixel_values": torch.ones(2, 3)}) is None


def test_prompts_that_are_no_texts_are_refused(model: SentenceTransformer) -> None:
    with pytest.raises(ValueError, match="prompts are those of the trainer, a text or a dictionary of texts, not int"):
        Loss(model, prompts={"anchor": 3})
