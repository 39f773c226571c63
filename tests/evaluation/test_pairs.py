"""Geometry of scored pairs, against loops over the pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hypersphere.data.sts import ScoredPairs
from hypersphere.evaluation.pairs import Remembered, in_batches, pair_geometry

FIRST = [f"a{n}" for n in range(9)]
SECOND = [f"b{n}" for n in range(8)] + ["a0"]  # one sentence stands in two pairs
GOLD = [5.0, 4.0, 4.2, 1.0, 4.8, 4.4, 4.1, 0.0, 4.6]


def embeddings() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {text: draw.normal(size=5) for text in [*FIRST, *SECOND]}


def pairs(gold: list[float]) -> ScoredPairs:
    return ScoredPairs("mine", FIRST, SECOND, np.array(gold))


def test_close_pairs_give_alignment_and_infonce_and_all_sentences_uniformity() -> None:
    rows = embeddings()
    geometry = pair_geometry(lambda texts: np.stack([rows[text] for text in texts]), pairs(GOLD), batch=3)
    unit = {text: row / np.linalg.norm(row) for text, row in rows.items()}
    close = [n for n, gold in enumerate(GOLD) if gold > 4]
    assert len(close) == 6
    losses = []
    for batch in (close[:3], close[3:]):
        for i in batch:
            row = {j: unit[FIRST[i]] @ unit[SECOND[j]] / 0.05 for j in batch}
            losses.append(math.log(sum(math.exp(each) for each in row.values())) - row[i])
    distinct = sorted(unit)
    energies = [
        math.exp(-2 * float(np.sum((unit[s] - unit[t]) ** 2))) for n, s in enumerate(distinct) for t in distinct[:n]
    ]
    assert geometry["alignment"] == pytest.approx(
        np.mean([np.sum((unit[FIRST[i]] - unit[SECOND[i]]) ** 2) for i in close]), abs=1e-5
    )
    assert geometry["infonce"] == pytest.approx(np.mean(losses), abs=1e-4)
    assert geometry["uniformity"] == pytest.approx(math.log(np.mean(energies)), abs=1e-5)


def test_without_close_pairs_only_uniformity_is_known() -> None:
    rows = embeddings()
    geometry = pair_geometry(lambda texts: np.stack([rows[text] for text in texts]), pairs([1.0] * 9), batch=3)
    assert math.isnan(geometry["alignment"]) and math.isnan(geometry["infonce"]) and geometry["uniformity"] < 0


def test_sentences_are_encoded_once_until_they_are_forgotten() -> None:
    calls: list[list[str]] = []
    encode = Remembered(lambda texts: calls.append(texts) or len(calls))
    assert [encode(["a"]), encode(["a"]), encode(["b"])] == [1, 1, 2]
    encode.forget()
    assert encode(["b"]) == 3


def test_a_row_that_would_be_alone_joins_the_last_batch() -> None:
    assert [len(each) for each in in_batches(range(13), 4)] == [4, 4, 5]
    assert [len(each) for each in in_batches(range(14), 4)] == [4, 4, 4, 2]
    assert in_batches([], 4) == [] and in_batches([3], 4) == [[3]]
