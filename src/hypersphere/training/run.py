"""One run from a recipe to a folder: prepared, trained, resumed if it must be, evaluated, described."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hypersphere.data.extras import need
from hypersphere.documents import expand
from hypersphere.messages import reason
from hypersphere.objectives.files import blame, names_in
from hypersphere.report import write_whole
from hypersphere.training import checkpoints
from hypersphere.training.after import measure_after
from hypersphere.training.folder import check_content, check_recipe, claimed, describe
from hypersphere.training.plain import plain
from hypersphere.training.recipe import Recipe


class NotPreparedError(ValueError):
    """A run that cannot begin as its recipe says; nothing was changed."""


class UnfinishedError(RuntimeError):
    """A run that had to stop, and that can be continued."""


@dataclass(frozen=True)
class Finished:
    """What a run left behind."""

    folder: Path
    results: dict[str, Any]


def train(recipe: Recipe, *, resume: bool = False, say: Callable[[str], None] = print, draw: bool = True) -> Finished:
    """Trains what the recipe says and returns the results; the folder tells the rest.

    A finished run is never overwritten and an unfinished one only continued, with ``resume``: from its newest whole
    checkpoint, to the same weights an uninterrupted run ends with. Ctrl-C and SIGTERM let the step under way end, save
    it and raise ``Interrupted``, a KeyboardInterrupt; a second one stops at once. ``prospect`` says what was saved.
    ``draw``: the curves, which take a second or two.
    """
    from hypersphere.training.interruption import Interruption

    folder = expand(recipe.output)
    leader = int(os.environ.get("RANK", "0")) == 0
    say = say if leader else _quiet
    start = time.monotonic()
    with ExitStack() as held:
        interruption = held.enter_context(Interruption())
        held.enter_context(_own_group())
        try:
            resume = held.enter_context(claimed(folder, recipe, resume, leader))
            task, checkpoint = _prepare(recipe, folder, resume, say)
            recipe = _with_sizes(recipe, task)
            given = _score_as_given(task, recipe, say) if leader else {}
            if leader and not resume:
                describe(folder, recipe, task.content)
        except Exception as error:  # of the data, of a model's files, of sizes: libraries raise every kind
            raise NotPreparedError(blame(error) or reason(error)) from error
        evaluation = _watch(task, recipe, folder, say)
        task.trainer.add_callback(interruption)  # last: what a step's end brings with it belongs to the step
        _train(task.trainer, evaluation, checkpoint)
        results: dict[str, Any] = {"steps": task.trainer.state.global_step}
        if leader:
            seconds = round(time.monotonic() - start, 1)
            results |= _finish(task, evaluation, given, folder, seconds, say, draw)
    return Finished(folder, results)


def prospect(folder: Path) -> str:
    """What became of a run that stopped: which step is saved, and what continuing it will do."""
    if not (folder / "recipe.yaml").is_file():
        return "nothing was begun"
    step = checkpoints.last_sealed(folder / "checkpoints")
    if step is None:
        return "nothing is saved, so the same command with --resume begins it again"
    return f"step {step} is saved, and the same command with --resume continues it"


@contextmanager
def _own_group() -> Iterator[None]:
    """Leaves the group of processes that was entered inside: one that ends without it may be aborted on its way out,
    and the first, which then still evaluates and saves, with it."""
    before = dist.is_available() and dist.is_initialized()
    try:
        yield
    finally:
        if not before and dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def _prepare(recipe: Recipe, folder: Path, resume: bool, say: Callable[[str], None]) -> tuple[Any, Path | None]:
    from transformers import set_seed

    from hypersphere.training.tensorboard import guard_tensorboard

    set_seed(recipe.seed)
    for name in names_in(recipe.objective):
        say(f"Objective: {name}.")
    if recipe.task == "text":
        need("sentence_transformers", "text", "a run on text")
        from hypersphere.training.text import prepare_text as prepare
    elif recipe.task == "image":
        from hypersphere.training.images import prepare_images as prepare
    else:
        from hypersphere.training.images import prepare_lines as prepare
    task = prepare(recipe, folder, say)
    task.trainer.say = say
    guard_tensorboard(task.trainer, folder / "tensorboard", say)
    _try_out(task)
    if resume:
        check_content(folder, task.content)
        check_recipe(folder, _with_sizes(recipe, task))
    set_seed((recipe.seed + int(os.environ.get("RANK", "0"))) % 2**32)  # every process draws its own views
    if not resume:
        return task, None
    found, said = checkpoints.newest_whole(folder / "checkpoints")
    for sentence in said:
        say(sentence[:1].upper() + sentence[1:] + ".")
    step = 0 if found is None else checkpoints.step_of(found)
    if int(os.environ.get("RANK", "0")) == 0:
        checkpoints.remove_later(folder / "checkpoints", step)
    say(f"Continuing from step {step}.")
    return task, found


def _with_sizes(recipe: Recipe, task: Any) -> Recipe:
    """The recipe with the sizes that its objective takes from the run; what else follows from the run is not written
    down, for it would follow from another encoder too."""
    return recipe.model_copy(update={"objective": task.trainer.recipe.objective})


def _try_out(task: Any) -> None:
    """Head and objective on random embeddings: what does not fit together shows before the run begins."""
    trainer = task.trainer
    trainer.get_train_dataloader()
    views = torch.randn(task.views, 4, task.width, device=trainer.args.device)
    given = task.sample.get("labels")
    labels = None if given is None else given.max().repeat(4).to(views.device)
    trainer.loss.eval()
    with torch.no_grad():
        trainer.loss(views, labels)
    trainer.loss.train()


def _score_as_given(task: Any, recipe: Recipe, say: Callable[[str], None]) -> dict[str, float]:
    """What the run has to be better than, on the test set too if the run may look at it."""
    from hypersphere.training.undisturbed import undisturbed

    if task.given is None or not recipe.evaluation.test:
        return {}
    with undisturbed([], recipe.seed):
        found: dict[str, float] = task.given()
    say("The model as given: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items()))
    return found


def _train(trainer: Any, evaluation: Any, checkpoint: Path | None) -> None:
    """Trains; a run that was killed after its last step is only loaded, one without steps only scored."""
    from hypersphere.training.bar import close_bars

    if trainer.args.max_steps == 0:
        evaluation.on_train_begin(trainer.args, trainer.state, trainer.control)
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
    from transformers import TrainerState

    trainer.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    trainer._load_from_checkpoint(str(checkpoint))
    evaluation.remember(trainer.state.global_step)


def _watch(task: Any, recipe: Recipe, folder: Path, say: Callable[[str], None]) -> Any:
    from hypersphere.training.evaluating import Evaluation
    from hypersphere.training.watching import watch

    evaluation = Evaluation(task, folder / "best", recipe.evaluation.every, recipe.evaluation.best, say)
    watch(task, recipe, folder / "metrics.jsonl", say)  # first: evaluating is no part of a step's time
    task.trainer.add_callback(evaluation)
    return evaluation


def _finish(
    task: Any,
    evaluation: Any,
    given: dict[str, float],
    folder: Path,
    seconds: float,
    say: Callable[[str], None],
    draw: bool,
) -> dict[str, Any]:
    """The best weights, the final scores, the model's folder, and last the file that says the run is over."""
    recipe = task.trainer.recipe  # with the encoder's own settings filled in
    from hypersphere.figures.training import save_run
    from hypersphere.training.card import write_card
    from hypersphere.training.monitor import read_journal
    from hypersphere.training.outcome import outcome
    from hypersphere.training.trainer import save_weights

    best = evaluation.restore_best()
    task.trainer.encoder.eval()
    results: dict[str, Any] = {
        "steps": task.trainer.state.global_step,
        "best_step": best,
        "seconds": seconds,
        "scores": task.final() if task.final and recipe.evaluation.test else {},
        "given": given,
        "history": evaluation.scores,
    }
    results["outcome"] = outcome(results)
    with _writing(folder, "model"):
        task.save(folder / "model")
    if recipe.evaluation.test:
        results["scores"] |= measure_after(recipe, folder, say)
    with _writing(folder, "objective.safetensors"):
        save_weights(task.trainer.loss, folder / "objective.safetensors")
    with _writing(folder, "embeddings.safetensors"):
        _keep_views(task, recipe, folder / "embeddings.safetensors")
    title = f"{folder.name}: {recipe.create_objective().name} on {Path(recipe.data.source).name}"
    try:
        if draw and results["steps"]:
            save_run(read_journal(folder / "metrics.jsonl"), folder, title=title)
    except (OSError, ValueError) as error:
        say(f"The curves could not be drawn ({error}); everything else is there.")
    with _writing(folder, "model/README.md"):
        write_card(folder, recipe, results)
    with _writing(folder, "results.json"):
        write_whole(folder / "results.json", json.dumps(plain(results), indent=1))
    return results


@contextmanager
def _writing(folder: Path, name: str) -> Iterator[None]:
    """A disk that takes no more costs a sentence, not what was trained."""
    try:
        yield
    except Exception as error:  # a full disk is another kind of error in each of the libraries that save
        words = " ".join(str(error).split())
        raise UnfinishedError(
            f"the run is trained, but {folder / name} could not be written ({words}); {prospect(folder)}"
        ) from error


def _keep_views(task: Any, recipe: Recipe, path: Path) -> None:
    """Both views of held-out instances (of training instances if none are held out), for ``hypersphere diagnose``."""
    from safetensors.torch import save

    from hypersphere.training.undisturbed import undisturbed

    trainer = task.trainer
    with undisturbed([trainer.encoder, trainer.loss], recipe.seed):
        trainer.encoder.train(recipe.task == "text" and recipe.data.views == "dropout")  # dropout makes the views
        parts = [trainer.embed(trainer.encoder, trainer._prepare_inputs(each)) for each in _instances(task)]
    views = torch.cat([part[:2] for part in parts], dim=1)
    write_whole(path, save({"z1": views[0].cpu().contiguous(), "z2": views[1].cpu().contiguous()}))


def _instances(task: Any) -> list[dict[str, Any]]:
    return task.held_out or [task.sample]


def _quiet(sentence: str) -> None:
    """Only the first process speaks."""
