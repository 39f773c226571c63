"""The objective of a recipe takes its sizes from the run."""

from __future__ import annotations

import pytest

from hypersphere.training.load import read_recipe


def test_an_objective_takes_its_sizes_from_the_run_wherever_it_stands() -> None:
    recipe = read_recipe("digits", ["objective={name: mixup, base: {name: cloa, base: ntxent}}"])
    fitted = recipe.fitted(num_classes=10, dim=64)
    assert fitted.objective["base"] == {"name": "cloa", "base": "ntxent", "num_classes": 10, "dim": 64}
    assert tuple(fitted.create_objective().base.anchors.shape) == (10, 64)
    assert fitted.fitted(num_classes=10, dim=64) == fitted
    assert read_recipe("digits").fitted(10, 64) == read_recipe("digits")


def test_what_is_added_to_a_base_takes_its_sizes_too_and_may_be_what_reads_labels() -> None:
    recipe = read_recipe("digits", ["objective={name: plus, base: infonce, extra: {name: cloa, base: met}}"])
    extra = {"name": "cloa", "base": "met", "num_classes": 10, "dim": 64}
    assert recipe.fitted(num_classes=10, dim=64).objective == {"name": "plus", "base": "infonce", "extra": extra}
    assert recipe.reads_labels and not read_recipe("digits", ["objective={name: plus, extra: koleo}"]).reads_labels
    with pytest.raises(ValueError, match="cloa's dim is 12, but what the objective sees has 64 dimensions"):
        read_recipe("digits", ["objective={name: plus, extra: {name: cloa, num_classes: 10, dim: 12}}"]).fitted(10, 64)


@pytest.mark.parametrize(
    "sizes, sentence",
    [
        ("dim: 99", "cloa's dim is 99, but what the objective sees has 64 dimensions"),
        ("num_classes: 3", "cloa's num_classes is 3, but the data has 10 classes"),
    ],
)
def test_sizes_that_do_not_fit_the_run_are_refused(sizes: str, sentence: str) -> None:
    recipe = read_recipe("digits", [f"objective={{name: cloa, base: ntxent, {sizes}}}"])
    with pytest.raises(ValueError, match=sentence):
        recipe.fitted(num_classes=10, dim=64)
