"""The regression behind hypersphere/factorial, against scikit-learn, scipy and worlds whose answer is known."""

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hypersphere.studies.reproduce.own.prediction import RIDGES, alike, gain, predict


@pytest.mark.parametrize("predictable", [True, False])
def test_predictions_are_those_of_scikit_learn_with_all_seeds_of_an_objective_left_out(predictable):
    """Objectives with five seeds each; in scikit-learn one row a seed, the seeds of an objective in one group."""
    draw = np.random.default_rng(3)
    features, noise = draw.normal(size=(40, 5)), draw.normal(size=(40, 5))
    truth = 3 * features[:, 0] - features[:, 1] ** 2 if predictable else np.zeros(40)
    quality = truth[:, None] + noise  # (objectives, seeds)
    model = make_pipeline(StandardScaler(), FunctionTransformer(lambda x: np.hstack([x, x**2])), RidgeCV(RIDGES))
    rows, groups, expected = np.repeat(features, 5, axis=0), np.repeat(np.arange(40), 5), np.full(40, np.nan)
    for seen, unseen in LeaveOneGroupOut().split(rows, groups=groups):
        known, (left_out,) = np.unique(groups[seen]), np.unique(groups[unseen])
        model.fit(features[known], quality[known].mean(axis=1))
        inside = np.clip(*squares_and_ends(features[known], rows[unseen]))
        (expected[left_out],) = np.unique(model[-1].predict(inside).round(12))
    means = quality.mean(axis=1)
    prediction = predict(features, means)
    np.testing.assert_allclose(prediction.predicted, expected, rtol=1e-9, atol=1e-9)
    explained = 1 - ((means - expected) ** 2).sum() / ((means - prediction.means) ** 2).sum()
    assert prediction.explained == pytest.approx(explained)
    assert (prediction.low > 0.6) if predictable else (prediction.low < 0 and prediction.explained < 0.1)


def squares_and_ends(seen, unseen):
    """What ``np.clip`` needs to keep unseen standardised features and squares within those that were seen."""
    x, new = ((each - seen.mean(axis=0)) / seen.std(axis=0) for each in (seen, unseen))
    x, new = (np.hstack([each, each**2]) for each in (x, new))
    return new, x.min(axis=0), x.max(axis=0)


def test_an_objective_has_no_part_in_its_own_prediction():
    """Neither its quality nor, through the scales, its numbers reach the regression that predicts it."""
    draw = np.random.default_rng(1)
    features, quality = draw.normal(size=(30, 3)), draw.normal(size=30)
    changed = quality.copy()
    changed[7] = 1e6
    assert predict(features, changed).predicted[7] == predict(features, quality).predicted[7]
    twin = np.vstack([features, features[:1]])  # the first objective under a second name, and how good it is
    quality = np.append(quality, 1e6)
    assert alike(twin)[0] == [0, 30]
    assert predict(twin, quality, alike(twin)).predicted[0] == pytest.approx(
        predict(features, quality[:30]).predicted[0]
    )


def test_an_interval_is_over_objectives():
    """That of scipy's bootstrap, which draws objectives with their error and their distance from the mean."""
    draw = np.random.default_rng(2)
    features = draw.normal(size=(60, 3))
    quality = features[:, 0] + draw.normal(size=60)
    prediction = predict(features, quality)
    errors, spread = (quality - prediction.predicted) ** 2, (quality - prediction.means) ** 2
    expected = bootstrap(
        (errors, spread), lambda e, s, axis: 1 - e.sum(axis=axis) / s.sum(axis=axis), paired=True, n_resamples=20_000,
        method="percentile", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    assert (prediction.low, prediction.high) == pytest.approx((expected.low, expected.high), abs=0.03)


def test_a_regression_is_judged_on_what_it_has_not_seen():
    draw = np.random.default_rng(0)
    features, quality = draw.normal(size=(40, 30)), draw.normal(size=40)
    assert predict(features, quality).explained < 0.1  # thirty numbers fit forty values, and predict none
    exact = predict(features[:, :2], features[:, 0] - 2 * features[:, 1])
    assert exact.explained > 0.9 and exact.low <= exact.explained <= exact.high
    mean = predict(np.zeros((40, 1)), quality)
    assert mean.explained == pytest.approx(0.0, abs=1e-9)
    assert gain(mean, mean, quality)[0] == 0.0
    both = predict(features[:, :3], quality)
    assert gain(both, mean, quality)[0] == pytest.approx(both.explained - mean.explained)


def test_verdicts_are_right_at_least_as_often_as_their_level():
    """Worlds without a connection: at most one in twenty is called predictable, or better than the other numbers."""
    draw, wrong = np.random.default_rng(5), [0, 0]
    for _ in range(40):
        features, quality = draw.normal(size=(20, 7)), draw.normal(size=20)
        anatomy, places = predict(features[:, :5], quality), predict(features[:, 5:], quality)
        wrong[0] += anatomy.low > 0
        wrong[1] += gain(anatomy, places, quality)[1] > 0
    assert max(wrong) <= 4  # 2 expected; 5 or more have a probability of 0.05
