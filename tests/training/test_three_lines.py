"""Training on CLOA's three lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hypersphere.data.synthetic import three_lines
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import create_task, train
from tests.training.worlds import quiet


def three_lines_recipe(tmp_path: Path) -> dict[str, Any]:
    return {
        "task": "three-lines",
        "data": {"source": "three-lines", "rows": 90, "noise": 0.02},
        "encoder": {"name": "mlp", "hidden": [16, 16, 3]},
        "objective": {"name": "ntxent", "temperature": 0.5},
        "optimizer": {"name": "sgd", "lr": 0.05, "max_grad_norm": 0},
        "batch": {"size": 90},
        "steps": 60,
        "monitor": {"every": 30},
        "loggers": [],
        "output": str(tmp_path / "run"),
    }


def test_three_lines_are_scored_on_held_out_points_and_on_fresh_ones(tmp_path: Path) -> None:
    tree = {
        "task": "three-lines", "data": {"source": "three-lines", "rows": 90, "held_out": 30}, "steps": 3,
        "encoder": {"name": "mlp", "hidden": [8, 3], "norm": "none"}, "batch": {"size": 60}, "loggers": [],
        "evaluation": {"every": 3}, "output": str(tmp_path / "run"),
    }  # fmt: skip
    results = train(parse_recipe(tree), echo=lambda words: None, draw=False).results
    assert set(results["history"]) == {0, 3} and 0 <= results["history"][3]["knn"] <= 100
    assert {"knn", "first_share", "first_share_centred", "class_cosine", "effective_rank"} == set(results["scores"])


def test_rows_of_three_lines_are_named_as_the_whole_set_counts_them(tmp_path: Path) -> None:
    tree = {**three_lines_recipe(tmp_path), "data": {"source": "three-lines", "rows": 90, "held_out": 30}}
    recipe = parse_recipe({**tree, "batch": {"size": 60}})
    task = create_task(recipe, tmp_path / "run", quiet)
    points, _, _ = three_lines(30, recipe.data.noise, recipe.seed)
    training = task.trainer.train_dataset
    torch.testing.assert_close(points[training.rows], training.images)


def test_three_lines_are_pulled_onto_their_negatives(tmp_path: Path) -> None:
    recipe = parse_recipe(three_lines_recipe(tmp_path))
    task = create_task(recipe, tmp_path / "run", quiet)
    before = task.trainer.embed(task.trainer.encoder, task.sample)
    task.trainer.train()
    after = task.trainer.embed(task.trainer.encoder, task.sample)
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(after[0], after[1]).mean() > cosine(before[0], before[1]).mean() + 0.2
    assert cosine(after[0], after[1]).mean() > 0.8
