"""Recipes that are shipped: their published settings."""

from __future__ import annotations

import pytest

from hypersphere.training.load import read_recipe


@pytest.mark.parametrize(
    "name, objective, batch",
    [
        ("mmhe-bert-base", {"name": "mmhe", "margin": 0.30, "temperature": 0.05, "ratio": 1.75}, 128),
        ("mmhs-roberta-base", {"name": "mmhs", "margin": 0.27, "ratio": 1.0}, 512),
        ("mvicreg-roberta-base", {"name": "mvicreg", "margin": 0.37, "temperature": 0.05, "ratio": 1.25}, 512),
        ("mbarlow-bert-base", {"name": "mbarlow", "margin": 0.30, "temperature": 0.05, "ratio": 1.5}, 128),
    ],
)
def test_recipes_of_the_modified_losses_have_the_published_settings(name: str, objective: dict, batch: int) -> None:
    recipe = read_recipe(name)
    assert recipe.objective == objective
    assert recipe.batch.size == batch
    assert recipe.optimizer.lr == 1e-5


@pytest.mark.parametrize("name, encoder", [("cloa-cifar10", "resnet18"), ("cloa-cifar100", "resnet50")])
def test_cloas_recipes_train_on_the_encoders_own_output(name: str, encoder: str) -> None:
    """Li & Pimentel-Alarcón 2024, section 5.1; its widths are those of the classifier that comes afterwards."""
    recipe = read_recipe(name)
    assert (recipe.head.kind, recipe.encoder.name, recipe.augmentation.size) == ("none", encoder, 224)
    assert recipe.objective == {"name": "cloa", "base": "ntxent"}
    assert (recipe.optimizer.name, recipe.optimizer.lr, recipe.batch.size, recipe.epochs) == ("sgd", 1.0, 128, 100)
    assert recipe.data.labels == 0.1
