"""Which score of a run counts, on validation data and on the test set."""

import math

import pytest

from hypersphere.studies.compare.scores import metric_of, validation_score
from hypersphere.studies.compare.scores import test_score as score_on_test
from hypersphere.training.load import read_recipe


def test_the_validation_score_is_that_of_the_kept_weights_or_of_the_last_step():
    history = {"0": {"knn": 40.0}, "20": {"knn": 70.0}, "100": {"knn": 60.0}}
    assert validation_score({"history": history, "best_step": 20}, "knn") == 70.0
    assert validation_score({"history": history, "best_step": None}, "knn") == 60.0  # 100 comes after 20
    assert validation_score({"history": history, "best_step": 0}, "knn") == 40.0
    assert validation_score({"history": history, "best_step": None}, "stsb_dev") is None
    assert validation_score({"history": {}, "best_step": None}, "knn") is None


def test_similarity_has_another_name_on_the_test_set():
    result = {"scores": {"stsb_dev": 80.0, "stsb_test": 70.0, "knn": math.nan}}
    assert score_on_test(result, "stsb_dev") == 70.0
    assert score_on_test(result, "knn") is None and score_on_test(result, "linear_1") is None


def test_a_recipe_has_the_score_of_its_task():
    assert metric_of(read_recipe("digits")) == metric_of(read_recipe("digits"), "knn") == "knn"
    with pytest.raises(ValueError, match="the task image has no metric stsb_dev; it has knn"):
        metric_of(read_recipe("digits"), "stsb_dev")
    with pytest.raises(ValueError, match=r"this recipe needs data\.held_out"):
        metric_of(read_recipe("digits", ["data.held_out=0"]))
