"""The regression behind hypersphere/factorial, on made-up worlds whose answer is known."""

import numpy as np
import pytest

from hypersphere.studies.reproduce.own.factorial import factorial
from hypersphere.studies.reproduce.own.prediction import gain, predict
from tests.studies.fabricated import held, result


def world(rule):
    """Every cell gets an anatomy from its name, and the quality that ``rule`` gives to it."""

    def make(cell):
        draw = np.random.default_rng(abs(hash_of(cell.objective)))
        numbers = dict(zip(("with_gradient", "hardest_weight", "ratio", "gap", "effective_rank", "alignment",
                            "uniformity"), draw.uniform(0.1, 1, 7).tolist(), strict=True))  # fmt: skip
        score = rule(numbers, np.random.default_rng([cell.seed, cell.trial, abs(hash_of(cell.objective))]))
        made = result(score, knn=score)
        return made | {"measured": [{"step": 300, **numbers}]}

    return {"factorial-images": held("factorial-images", make)}


def hash_of(text):
    return sum((place + 1) * ord(char) for place, char in enumerate(text))


def test_what_the_anatomy_decides_is_predicted_from_it():
    found = factorial(world(lambda n, draw: 30 + 10 * n["with_gradient"] - 8 * n["hardest_weight"] + 3 * n["gap"]))
    assert found.verdict == "agrees" and "75 composed losses and 27 registered" in found.measured


def test_what_alignment_decides_is_not():
    found = factorial(world(lambda n, draw: 30 + 10 * n["alignment"] - 8 * n["uniformity"]))
    assert list(found.clauses.values())[1] is False and found.verdict in ("does not agree", "partly")


def test_noise_is_predicted_by_nothing():
    found = factorial(world(lambda n, draw: 30 + draw.normal()))
    assert True not in found.clauses.values()


def test_a_regression_is_judged_on_what_it_has_not_seen():
    draw = np.random.default_rng(0)
    features, quality = draw.normal(size=(40, 30)), draw.normal(size=40)
    assert predict(features, quality).explained < 0.1  # thirty numbers fit forty values, and predict none
    exact = predict(features[:, :2], features[:, 0] - 2 * features[:, 1])
    assert exact.explained > 0.9 and exact.low <= exact.explained <= exact.high
    mean = predict(np.zeros((40, 1)), quality)
    assert mean.explained == pytest.approx(0.0, abs=1e-9)
    assert gain(mean, mean, quality)[0] == 0.0
