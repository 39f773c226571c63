"""SentEval's protocol, against plain loops over folds and strengths."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hypersphere.evaluation.classifier import FAST, SENTEVAL
from hypersphere.evaluation.transfer import (
    Labelled,
    cross_validate,
    pair_features,
    train_and_test,
    train_dev_test,
)
from tests.evaluation import senteval_loop as loop
from tests.evaluation.drawn import fixed_embedding

SHORT = replace(SENTEVAL, folds=3, batch_size=32, max_epoch=24)
QUICK = replace(FAST, folds=3, batch_size=32, max_epoch=12)


@pytest.mark.parametrize("protocol", [SHORT, QUICK], ids=["adam", "rmsprop"])
def test_nested_cross_validation_is_the_plain_loop(protocol) -> None:
    x, y = fixed_embedding(100, 5, 2, seed=2)
    score = cross_validate(Labelled(x, y), 2, protocol)
    assert (score.accuracy, score.dev_accuracy, score.strengths) == loop.nested(protocol, x, y, 2)


def test_in_single_precision_too(seed: int = 3) -> None:
    x, y = fixed_embedding(90, 5, 2, seed, dtype=torch.float32)
    score = cross_validate(Labelled(x, y), 2, SHORT)
    assert (score.accuracy, score.dev_accuracy, score.strengths) == loop.nested(SHORT, x, y, 2)


@pytest.mark.parametrize("classes", [2, 6])
def test_train_and_test_is_the_plain_loop(classes: int) -> None:
    x, y = fixed_embedding(180, 6, classes, seed=4)
    score = train_and_test(Labelled(x[:130], y[:130]), Labelled(x[130:], y[130:]), classes, SHORT)
    expected = loop.train_and_test(SHORT, x[:130], y[:130], x[130:], y[130:], classes)
    assert (score.accuracy, score.dev_accuracy, score.strengths, score.f1) == expected


def test_train_dev_test_is_the_plain_loop() -> None:
    x, y = fixed_embedding(240, 6, 2, seed=5)
    parts = [(x[rows], y[rows]) for rows in (slice(0, 150), slice(150, 190), slice(190, 240))]
    score = train_dev_test(*(Labelled(*part) for part in parts), 2, SHORT)
    assert (score.accuracy, score.dev_accuracy, score.strengths) == loop.train_dev_test(SHORT, *parts, 2)


def test_pair_features_are_the_difference_and_the_product() -> None:
    u, v = np.array([[1.0, -2.0]]), np.array([[3.0, 5.0]])
    assert pair_features(u, v).tolist() == [[2.0, 7.0, 3.0, -10.0]]


def test_the_callers_random_numbers_are_left_alone() -> None:
    x, y = fixed_embedding(40, 3, 2, seed=7)
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    cross_validate(Labelled(x, y), 2, replace(SHORT, max_epoch=4))
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
