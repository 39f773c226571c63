"""Classifiers trained side by side are those of SentEval's protocol, trained one at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hypersphere.evaluation.classifier import FAST, SENTEVAL, Fit, fit_all
from hypersphere.evaluation.transfer import (
    Labelled,
    cross_validate,
    folds,
    pair_features,
    train_and_test,
    train_dev_test,
)
from tests.evaluation import senteval_loop as loop

SHORT = replace(SENTEVAL, folds=3, batch_size=32, max_epoch=24)
QUICK = replace(FAST, folds=3, batch_size=32, max_epoch=12)


def fixed_embedding(rows: int, dim: int, classes: int, seed: int, dtype=torch.float64):
    """Unit vectors around a direction of each class, noisy enough that folds and strengths differ."""
    draw = np.random.default_rng(seed)
    centres, labels = draw.normal(size=(classes, dim)), draw.integers(0, classes, rows)
    x = centres[labels] + 1.6 * draw.normal(size=(rows, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(labels)


@pytest.mark.parametrize("protocol", [SHORT, QUICK], ids=["adam", "rmsprop"])
@pytest.mark.parametrize("classes", [2, 4])
def test_every_fit_at_every_strength_is_the_one_trained_alone(protocol, classes) -> None:
    x, y = fixed_embedding(101, 6, classes, seed=1)  # 101 rows: folds of different sizes
    fits = [Fit(*rows) for rows in folds(y.numpy(), protocol)]
    together = fit_all(x, y, classes, fits, protocol)
    for f, fit in enumerate(fits):
        for r, strength in enumerate(protocol.strengths):
            alone = loop.OneClassifier(protocol, 6, classes, strength, x.dtype)
            best = alone.fit(x[fit.train], y[fit.train], (x[fit.dev], y[fit.dev]))
            assert together.accuracy[f, r] == best
            weights = torch.cat([alone.layer.weight, alone.layer.bias[:, None]], dim=1).T  # (D + 1, C)
            torch.testing.assert_close(
                together.weights[f, r], (weights[:, 1:] - weights[:, :1]).detach(), rtol=1e-9, atol=1e-9
            )


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


def test_long_training_reaches_the_optimum_of_scikit_learn() -> None:
    """Weight decay λ is the penalty λ/2 |w|²; per row that is C = 1 / (λ N) in scikit-learn (bias nearly free)."""
    from sklearn.linear_model import LogisticRegression

    x, y = fixed_embedding(60, 3, 2, seed=6)
    whole = replace(SENTEVAL, batch_size=60, tenacity=10**6, epoch_size=8000, max_epoch=7999, strengths=(1e-2,))
    rows = np.arange(60)
    fitted = fit_all(x, y, 2, [Fit(rows, rows)], whole)
    # Softmax with w₀ and w₁ penalised is a logistic regression on w₁ − w₀ with half the penalty, the bias too.
    features = np.c_[x.numpy(), np.ones(60)]
    exact = LogisticRegression(C=1 / (0.5 * 1e-2 * 60), fit_intercept=False, tol=1e-10, max_iter=10_000)
    exact.fit(features, y.numpy())
    np.testing.assert_allclose(fitted.weights[0, 0, :, 0].numpy(), exact.coef_[0], rtol=1e-3, atol=1e-3)


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
