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
