"""One run from a recipe to a folder: prepared, trained or resumed, evaluated, described."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerState

from hypersphere.data.extras import need
from hypersphere.documents import expand
from hypersphere.messages import reason
from hypersphere.objectives.files import blame, names_in
from hypersphere.training import checkpoints
from hypersphere.training.finish import UnfinishedError, finish
from hypersphere.training.folder import (
    BEST,
    CHECKPOINTS,
    METRICS,
    TENSORBOARD,
    check_data,
    check_recipe,
    claimed,
    describe,
    prospect,
)
from hypersphere.training.interruption import Interruption
from hypersphere.training.loggers import guard_tensorboard
from hypersphere.training.monitor import watch
from hypersphere.training.progress import close_bars
from hypersphere.training.recipe import ImageRecipe, Recipe, TextRecipe
from hypersphere.training.score_callback import ScoreCallback
from hypersphere.training.seeding import preserve_state, rank, seed_process, seed_run
from hypersphere.training.task import Echo, Scores, Task
from hypersphere.training.trainer import ObjectiveTraining


class NotPreparedError(ValueError):
    """The run cannot begin with this recipe; nothing was changed."""


@dataclass(frozen=True)
class Finished:
    """The outcome of a run."""

    folder: Path
    results: dict[str, Any]


def train(recipe: Recipe, *, resume: bool = False, echo: Echo = print, draw: bool = True) -> Finished:
    """Trains according to the recipe and returns the results; all other output is in the folder.

    A finished run is never overwritten. An unfinished run is only continued, with ``resume``: from its newest whole
    checkpoint, to the same weights an uninterrupted run ends with. Ctrl-C and SIGTERM let the current step end, save it
    and raise ``Interrupted``, a KeyboardInterrupt; a second one stops at once. ``prospect`` describes what was saved.
    ``draw``: the curves, which take a second or two.
    """
    folder = expand(recipe.output)
    leader = rank() == 0
    echo = echo if leader else _quiet
    start = time.monotonic()
    with ExitStack() as held:
        interruption = held.enter_context(Interruption())
        held.enter_context(_own_group())
        try:
            resume = held.enter_context(claimed(folder, recipe, resume, leader))
            task, checkpoint = _prepare(recipe, folder, resume, echo)
            recipe = _with_sizes(recipe, task)
            given = _score_as_given(task, recipe, echo) if leader else {}
            if leader and not resume:
                describe(folder, recipe, task.fingerprint)
        except Exception as error:  # from data, model files or sizes: libraries raise every kind
            raise NotPreparedError(blame(error) or reason(error)) from error
        monitor = watch(task, recipe, folder / METRICS, echo)  # first callback: evaluating is no part of a step's time
        wanted = recipe.evaluation
        scoring = ScoreCallback(task, folder / BEST, wanted.every, wanted.best, echo, monitor)
        task.trainer.add_callback(scoring)
        task.trainer.add_callback(interruption)  # last callback: all callbacks at a step's end belong to the step
        _train(task.trainer, scoring, checkpoint)
        results: dict[str, Any] = {"steps": task.trainer.state.global_step}
        if leader:
            seconds = round(time.monotonic() - start, 1)
            results |= finish(task, scoring, given, folder, seconds, echo, draw)
    return Finished(folder, results)


@contextmanager
def _own_group() -> Iterator[None]:
    """Leaves a process group that was entered inside the context. A process that ends without leaving it may be aborted
    on exit. The launcher would then end the first process too, which still evaluates and saves."""
    before = dist.is_available() and dist.is_initialized()
    try:
        yield
    finally:
        if not before and dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def _prepare(recipe: Recipe, folder: Path, resume: bool, echo: Echo) -> tuple[Task, Path | None]:
    """The task, and the checkpoint to continue from."""
    seed_run(recipe.seed)
    for name in names_in(recipe.objective):
        echo(f"Objective: {name}.")
    task = create_task(recipe, folder, echo)
    task.trainer.echo = echo
    guard_tensorboard(task.trainer, folder / TENSORBOARD, echo)
    _try_out(task)
    if resume:
        check_data(folder, task.fingerprint)
        check_recipe(folder, _with_sizes(recipe, task))
    seed_process(recipe.seed)
    return task, _checkpoint(folder / CHECKPOINTS, echo) if resume else None


def create_task(recipe: Recipe, folder: Path, echo: Echo) -> Task:
    """The task of a recipe; the libraries of the others are not imported."""
    if isinstance(recipe, TextRecipe):
        need("sentence_transformers", "text", "a run on text")
        from hypersphere.training.text import TextTask

        return TextTask(recipe, folder, echo)
    if isinstance(recipe, ImageRecipe):
        from hypersphere.training.images import ImageTask

        return ImageTask(recipe, folder, echo)
    from hypersphere.training.three_lines import ThreeLinesTask

    return ThreeLinesTask(recipe, folder, echo)


def _checkpoint(folder: Path, echo: Echo) -> Path | None:
    """The newest whole checkpoint; later ones are removed."""
    newest, said = checkpoints.newest_whole(folder)
    for sentence in said:
        echo(sentence[:1].upper() + sentence[1:] + ".")
    step = 0 if newest is None else checkpoints.step_of(newest)
    if rank() == 0:
        checkpoints.remove_later(folder, step)
    echo(f"Continuing from step {step}.")
    return newest


def _with_sizes(recipe: Recipe, task: Task) -> Recipe:
    """The recipe with the sizes that its objective takes from the run. Other derived settings are not recorded, because
    they can be derived from another encoder too."""
    return recipe.model_copy(update={"objective": task.trainer.recipe.objective})


def _try_out(task: Task) -> None:
    """Calls head and objective on random embeddings, so that a mismatch raises an error before the run begins."""
    trainer = task.trainer
    trainer.get_train_dataloader()
    views = torch.randn(task.views, 4, task.width, device=trainer.args.device)
    given = task.sample.get("labels")
    labels = None if given is None else given.max().repeat(4).to(views.device)
    trainer.loss.eval()
    known = {}
    if "guide" in trainer.loss.objective.needs:
        rows = torch.randn(3, 4, 2, device=views.device)
        known = {"guide": (rows[0], rows[1]), **({"guide_negatives": rows[2]} if task.views == 3 else {})}
    with torch.no_grad():
        trainer.loss(views, labels, **known)
    trainer.loss.train()


def _score_as_given(task: Task, recipe: Recipe, echo: Echo) -> Scores:
    """Scores of the model before training, the baseline of the run; on the test set too if the recipe allows it."""
    if not recipe.evaluation.test:
        return {}
    with preserve_state([], recipe.seed):
        scores = task.given()
    if scores:
        echo("The model as given: " + ", ".join(f"{name} {value:.2f}" for name, value in scores.items()))
    return scores


def _train(trainer: ObjectiveTraining, scoring: ScoreCallback, checkpoint: Path | None) -> None:
    """Trains. A run killed after its last step is only loaded; a run without steps is only scored."""
    if trainer.args.max_steps == 0:
        scoring.on_train_begin(trainer.args, trainer.state, trainer.control)
        return
    if checkpoint is None or checkpoints.step_of(checkpoint) < trainer.args.max_steps:
        try:
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        except OSError as error:
            kept = prospect(Path(str(trainer.args.output_dir)).parent)
            raise UnfinishedError(f"the run stopped at step {trainer.state.global_step}: {error}; {kept}") from error
        finally:
            close_bars(trainer)
        return
    trainer.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    trainer._load_from_checkpoint(str(checkpoint))
    scoring.remember(trainer.state.global_step)


def _quiet(sentence: str) -> None:
    """Prints nothing: only the first process prints."""
