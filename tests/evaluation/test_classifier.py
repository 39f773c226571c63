"""Classifiers trained side by side are those trained one at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hypersphere.evaluation.classifier import FAST, SENTEVAL, Fit, fit_all
from hypersphere.evaluation.transfer import folds
from tests.evaluation import senteval_loop as loop
from tests.evaluation.drawn import fixed_embedding

SHORT = replace(SENTEVAL, folds=3, batch_size=32, max_epoch=24)

QUICK = replace(FAST, folds=3, batch_size=32, max_epoch=12)


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


def test_held_out_rows_are_a_share_of_those_given_and_no_row_is_lost() -> None:
    rows = np.arange(100, 141)
    fit = Fit.holding_out(rows, 0.05, seed=7)
    assert (len(fit.dev), len(fit.train), fit.drawn) == (2, 39, 41)
    assert sorted([*fit.dev, *fit.train]) == rows.tolist() and list(fit.train) != sorted(fit.train)


def test_an_optimiser_there_is_not_is_refused() -> None:
    x, y = fixed_embedding(20, 3, 2, seed=8)
    with pytest.raises(ValueError, match="no optimiser 'sgd' for classifiers; there are adam and rmsprop"):
        fit_all(x, y, 2, [Fit(np.arange(20), np.arange(20))], replace(SHORT, optimiser="sgd"))
