"""The monitor of a task: what it measures, as the objective sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from hypersphere.training.monitor import Monitor, multiples
from hypersphere.training.recipe import Recipe
from hypersphere.training.task import Scores, Task


def watch(task: Task, recipe: Recipe, path: Path, say: Callable[[str], None]) -> Monitor:
    """Puts a monitor on the task's trainer: a fixed training batch, and the held-out ones if there are any, as the
    objective sees them, but for hard negatives, which are left out. Scores are timed and written down too."""
    trainer = task.trainer
    alone = recipe.create_objective()  # only the first process measures: it must not wait for the others

    def views(inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor | None]:
        here = trainer._prepare_inputs(inputs)
        alone.load_state_dict(trainer.loss.objective.state_dict())
        trainer.encoder.train()  # dropout makes the views of text
        z = trainer.loss.project(trainer.embed(trainer.encoder, here))
        return z[0], z[1], here.get("labels")

    def held_out() -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        return (views(batch) for batch in task.held_out)

    monitor = Monitor(
        alone.to(trainer.args.device),
        training=lambda: views(task.sample),
        held_out=held_out if task.held_out else None,
        every=recipe.monitor.every,
        rows=recipe.batch.size + 1,  # a batch may have one row more, which would have been alone
        path=path,
        say=say,
        seed=recipe.seed,
    ).join(trainer)
    if task.score is not None:
        task.score = _noted(task, task.score, monitor)
        monitor.pace.expect("evaluation", lambda step, most: multiples(step, most, recipe.evaluation.every))
    return monitor


def _noted(task: Task, score: Callable[[], Scores], monitor: Monitor) -> Callable[[], Scores]:
    def noted() -> Scores:
        with monitor.pace.aside("evaluation"):
            scores = score()
            geometry = task.geometry() if task.geometry is not None else {}
        monitor.note(task.trainer.state.global_step, task.key, scores[task.key], **geometry)
        return scores

    return noted
