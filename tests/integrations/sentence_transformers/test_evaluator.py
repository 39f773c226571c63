"""The evaluator's numbers against loops over its texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from hypersphere.integrations.sentence_transformers import Evaluator
from tests.integrations.sentence_transformers.steps import (
    A,
    P,
)


def test_ranks_and_geometry_are_those_of_loops_over_the_texts(model: SentenceTransformer, tmp_path: Path) -> None:
    positives = [*P[:6], P[0], P[7]]  # the positive of 0 is that of 6 too: neither is a rival of the other
    evaluator = Evaluator(A, positives, name="dev")
    numbers = evaluator(model, str(tmp_path))
    assert evaluator.primary_metric == "dev_mean_reciprocal_rank"
    x, y = (torch.nn.functional.normalize(model.encode(each, convert_to_tensor=True)) for each in (A, positives))
    cosines = (x @ y.T).double()
    ranks = [
        1 + sum(bool(cosines[i, j] > cosines[i, i]) for j in range(8) if positives[j] != positives[i]) for i in range(8)
    ]
    assert numbers["dev_mean_reciprocal_rank"] == pytest.approx(sum(1 / rank for rank in ranks) / 8)
    assert numbers["dev_recall_at_1"] == sum(rank == 1 for rank in ranks) / 8
    assert numbers["dev_alignment"] == pytest.approx(float((x - y).square().sum(dim=1).mean()), rel=1e-5)
    names, row = (tmp_path / "geometry_evaluation_dev_results.csv").read_text().splitlines()
    assert names.endswith(",verdict") and float(row.split(",")[2]) == numbers["dev_mean_reciprocal_rank"]


def test_texts_without_positives_have_a_rank(model: SentenceTransformer) -> None:
    evaluator = Evaluator(A, name="")
    assert set(evaluator(model)) == {"uniformity", "effective_rank", "mean_cosine", "healthy", "collapsed"}
    assert evaluator.primary_metric == "effective_rank"


def test_texts_that_are_no_pairs_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="8 anchors and 7 positives"):
        Evaluator(A, P[:7])
    with pytest.raises(ValueError, match="anchors must be a list of texts"):
        Evaluator("a text")
    with pytest.raises(ValueError, match="at least two texts, not 1"):
        Evaluator(A[:1])
