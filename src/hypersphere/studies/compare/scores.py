"""The score of a run: on validation data to choose settings, on the test set once, at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypersphere.training.recipe import Recipe

TEST_SCORE = {"stsb_dev": "stsb_test"}  # scores with another name on the test set; all others keep their name


def metric_of(recipe: Recipe, wanted: str = "") -> str:
    """The score of a recipe's task; an error of one sentence if it has none, or not the wanted one."""
    name, need = {"text": ("stsb_dev", "evaluation.sts=FOLDER"), "image": ("knn", "data.held_out and labels"),
                  "three-lines": ("knn", "data.held_out")}[recipe.task]  # fmt: skip
    if not recipe.scored:
        raise ValueError(f"a comparison chooses settings on validation data: this recipe needs {need}")
    if wanted and wanted != name:
        raise ValueError(f"the task {recipe.task} has no metric {wanted}; it has {name}")
    return name


def validation_score(result: Mapping[str, Any], metric: str) -> float | None:
    """The validation score of the kept weights."""
    history = result["history"]
    if not history:
        return None
    step = result["best_step"] if result["best_step"] is not None else max(history, key=int)
    return _number(history.get(str(step), {}).get(metric))


def test_score(result: Mapping[str, Any], metric: str) -> float | None:
    """The score on the test set; None if the run did not evaluate it."""
    return _number(result["scores"].get(TEST_SCORE.get(metric, metric)))


def _number(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
