"""The monitor of a task: what it measures, as the objective sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from hypersphere.training.monitor import Monitor
from hypersphere.training.recipe import Recipe
from hypersphere.training.task import Task


def watch(task: Task, recipe: Recipe, path: Path, say: Callable[[str], None]) -> Monitor:
    """Puts a monitor on the task's trainer: a fixed training batch, and the held-out one if there is any, as the
    objective sees them, but for hard negatives, which are left out."""
    trainer = task.trainer
    alone = recipe.create_objective()  # only the first process measures: it must not wait for the others

    def views(inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor | None]:
        here = trainer._prepare_inputs(inputs)
        alone.load_state_dict(trainer.loss.objective.state_dict())
        trainer.encoder.train()  # dropout makes the views of text
        z = trainer.loss.project(trainer.embed(trainer.encoder, here))
        return z[0], z[1], here.get("labels")

    held_out = task.held_out
    return Monitor(
        alone.to(trainer.args.device),
        training=lambda: views(task.sample),
        held_out=None if held_out is None else lambda: views(held_out),
        every=recipe.monitor.every,
        rows=recipe.monitor.rows,
        path=path,
        say=say,
        seed=recipe.seed,
    ).join(trainer)
