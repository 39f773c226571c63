"""The regression behind hypersphere/factorial, on made-up worlds whose answer is known."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hypersphere.studies.reproduce.items import write
from hypersphere.studies.reproduce.own.factorial import PARTS, SETS, analyse, factorial
from hypersphere.studies.reproduce.own.page import page
from hypersphere.studies.reproduce.own.prediction import RIDGES, alike, gain, predict
from tests.studies.reproduce.fabricated import held, result

NUMBERS = ("with_gradient", "hardest_weight", "ratio", "gap", "effective_rank", "alignment", "uniformity")
CONTESTS = ("factorial-images", "factorial-text")


def world(rule, contests=CONTESTS):
    """Every objective gets an anatomy from its name, and the quality that ``rule`` gives to it."""

    def made(metric, test):
        def make(cell):
            name = hash_of(cell.objective)
            numbers = dict(zip(NUMBERS, np.random.default_rng(name).uniform(0.1, 1, 7).tolist(), strict=True))
            score = rule(numbers, np.random.default_rng([cell.seed, cell.trial, name]))
            begin = dict.fromkeys(NUMBERS, 99.0)  # before the first step: says nothing about the objective
            return result(score, metric, **{test: score}) | {
                "measured": [{"step": 0, **begin}, {"step": 300, **numbers}]
            }

        return make

    names = {"factorial-images": ("knn", "knn"), "factorial-text": ("stsb_dev", "stsb_test")}
    return {each: held(each, made(*names[each])) for each in contests}


def hash_of(text):
    return sum((place + 1) ** 2 * ord(char) for place, char in enumerate(text))


def judged(finding, part, data="images"):
    return finding.clauses[f"{data}: {PARTS[part]}"]


def test_what_the_anatomy_decides_is_predicted_from_it():
    finding = factorial(
        world(lambda n, draw: 30 + 10 * n["with_gradient"] - 8 * n["hardest_weight"] + draw.normal() / 9)
    )
    assert [judged(finding, part) for part in range(3)] == [True, True, True]
    assert judged(finding, 0, "text") is True and len(finding.clauses) == 6
    assert "Images: 75 composed losses and 26 registered" in finding.measured
    assert "Text: 12 composed losses and 8 registered" in finding.measured


def test_what_alignment_decides_is_not():
    finding = factorial(world(lambda n, draw: 30 + 10 * n["alignment"] - 8 * n["uniformity"]))
    assert judged(finding, 1) is False and finding.verdict in ("does not agree", "partly")
    assert "whether it is the scale or the idea" in finding.fault


def test_noise_is_predicted_by_nothing():
    finding = factorial(world(lambda n, draw: 30 + draw.normal()))
    assert True not in finding.clauses.values()


def test_numbers_while_training_are_means_and_the_others_are_of_the_end():
    def make(cell):
        lines = [{"step": step, **dict.fromkeys(NUMBERS, value)} for step, value in ((0, 9.0), (1, 1.0), (2, 2.0))]
        return result(30.0, "stsb_dev", stsb_test=30.0) | {"measured": lines}

    analysis = analyse(held("factorial-text", make).comparison.contestants)
    assert len(analysis.points) == 20 and not analysis.predictions  # all alike: there is nothing to predict from
    numbers = analysis.points[0].numbers
    assert numbers == {"with_gradient": 1.5, "hardest_weight": 1.5, "ratio": 1.5, "gap": 2.0, "effective_rank": 2.0,
                       "alignment": 2.0, "uniformity": 2.0}  # fmt: skip


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


def test_every_set_of_numbers_is_in_the_tables():
    finding = factorial(world(lambda n, draw: 30 + draw.normal(), CONTESTS[1:]))
    assert set(SETS) < {row["numbers"] for row in finding.data["predictors"]}
    assert len(finding.data["objectives"]) == 20 and set(finding.figures) == {"prediction-text"}


def test_the_page_says_plainly_that_runs_are_missing(tmp_path):
    words = page(tmp_path, tmp_path)
    assert "**The runs are not complete, so there is no answer yet.**" in words and "factorial-text: 0 of" in words


def test_the_page_is_written_from_the_results(tmp_path):
    made = world(lambda n, draw: 30 + 10 * n["with_gradient"] + draw.normal() / 9)
    finding, _ = write("hypersphere/factorial", factorial(made), tmp_path / "results", held=made)
    words = page(tmp_path / "results", tmp_path / "docs")
    assert f"**The answer: {finding.verdict}.** {finding.measured}" in words
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", words)
    assert len(pictures) == 2 and all((tmp_path / "docs" / each).resolve().is_file() for each in pictures)
    line = next(row for row in finding.data["predictors"] if row["numbers"] == "share of active anchors")
    assert f"{line['explained']:.2f} ({line['low']:.2f} to {line['high']:.2f})" in words
    assert len(words.split()) < 1500  # two pages


def test_the_page_in_docs_is_what_the_results_say():
    home = Path(__file__).parents[4]
    assert (home / "docs" / "factorial.md").read_text(encoding="utf-8") == page(home / "results", home / "docs")
