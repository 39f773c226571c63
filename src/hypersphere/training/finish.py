"""The end of a run: the best weights, the final scores, the model's folder, and last the file that ends the run."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from hypersphere.data import sts, transfer
from hypersphere.documents import json_safe
from hypersphere.figures.training import save_run
from hypersphere.report import atomic_write
from hypersphere.training.card import outcome, write_card
from hypersphere.training.folder import EMBEDDINGS, METRICS, MODEL, OBJECTIVE, RESULTS, prospect
from hypersphere.training.journal import read_journal
from hypersphere.training.recipe import ImageRecipe, Recipe, TextRecipe
from hypersphere.training.score_callback import ScoreCallback
from hypersphere.training.seeding import preserve_state
from hypersphere.training.task import Echo, Scores, Task
from hypersphere.training.trainer import save_weights


class UnfinishedError(RuntimeError):
    """A run that had to stop, and that can be continued."""


def finish(
    task: Task, scoring: ScoreCallback, given: Scores, folder: Path, seconds: float, echo: Echo, draw: bool
) -> dict[str, Any]:
    """Returns the results of a trained task and fills its folder; ``given``: scores of the model as given."""
    recipe = task.trainer.recipe  # with the encoder's own settings filled in
    best, steps = scoring.restore_best(), task.trainer.state.global_step
    task.trainer.encoder.eval()
    results: dict[str, Any] = {
        "steps": steps,
        "best_step": best,
        "seconds": seconds,
        "scores": task.final(scoring.scores.get(steps if best is None else best)) if recipe.evaluation.test else {},
        "given": given,
        "history": scoring.scores,
        **task.counted(),
    }
    if "masked_pairs" in results:
        echo(f"Masked: {results['masked_pairs']} pairs of equal texts were no negatives of each other.")
    results["outcome"] = outcome(results)
    with _writing(folder, MODEL):
        task.save(folder / MODEL)
    if recipe.evaluation.test:
        results["scores"] |= measure_after(recipe, folder, echo)
    with _writing(folder, OBJECTIVE):
        save_weights(task.trainer.loss, folder / OBJECTIVE)
    with _writing(folder, EMBEDDINGS):
        _keep_views(task, folder / EMBEDDINGS)
    title = f"{folder.name}: {recipe.create_objective().name} on {Path(recipe.data.source).name}"
    try:
        if draw and results["steps"]:
            save_run(read_journal(folder / METRICS), folder, title=title)
    except (OSError, ValueError) as error:
        echo(f"The curves could not be drawn ({error}); everything else is there.")
    with _writing(folder, f"{MODEL}/README.md"):
        write_card(folder, recipe, results)
    with _writing(folder, RESULTS):
        atomic_write(folder / RESULTS, json.dumps(json_safe(results), indent=1))
    return results


@contextmanager
def _writing(folder: Path, name: str) -> Iterator[None]:
    """Turns a failed write into ``UnfinishedError``: the run can be continued, so a full disk loses no training."""
    try:
        yield
    except Exception as error:  # each library that saves raises its own kind of error on a full disk
        words = " ".join(str(error).split())
        raise UnfinishedError(
            f"the run is trained, but {folder / name} could not be written ({words}); {prospect(folder)}"
        ) from error


def _keep_views(task: Task, path: Path) -> None:
    """Both views of held-out instances (of training instances if none are held out), for ``hypersphere diagnose``."""
    trainer, recipe = task.trainer, task.trainer.recipe
    with preserve_state([trainer.encoder, trainer.loss], recipe.seed):
        trainer.encoder.train(isinstance(recipe, TextRecipe) and recipe.data.views == "dropout")  # it makes the views
        batches = task.held_out or [task.sample]
        parts = [trainer.embed(trainer.encoder, trainer._prepare_inputs(each)) for each in batches]
    views = torch.cat([part[:2] for part in parts], dim=1)
    atomic_write(path, save({"z1": views[0].cpu().contiguous(), "z2": views[1].cpu().contiguous()}))


# --- measurements of the final model that a recipe requests


def measure_after(recipe: Recipe, folder: Path, echo: Echo) -> Scores:
    """The scores listed in ``evaluation.after``, for the model in a run's folder; accuracies and correlations × 100.

    images: ``linear_0.1`` (probe and share of the labels), ``linear_0.1_top5``, and ``variance`` of the encoder's
        output on the test images, summed over its dimensions.
    text: every set by its name, ``sts_average``, ``transfer_average``.
    """
    if isinstance(recipe, ImageRecipe) and recipe.evaluation.after:
        return _probes(folder, recipe, echo)
    if isinstance(recipe, TextRecipe) and recipe.evaluation.after:
        return _sentences(folder / MODEL, recipe)
    return {}


def _probes(folder: Path, recipe: ImageRecipe, echo: Echo) -> Scores:
    from hypersphere.evaluation.probes import ProbedRun, evaluate_run

    run = ProbedRun.open(folder)
    scores: Scores = {"variance": run.variance}
    for probe, share in itertools.product(recipe.evaluation.after, recipe.evaluation.shares):
        name = f"{probe}_{share:g}"
        try:
            best = evaluate_run(run, probe, [share], seeds=1).scores[0]
        except ValueError as error:  # a probe that diverges on features of any size loses its score; the run continues
            echo(f"No score {name}: {error}.")
            scores[name] = math.nan
            continue
        scores[name] = 100 * best.top1
        if best.top5 is not None:
            scores[f"{name}_top5"] = 100 * best.top5
    return scores


def _sentences(model: Path, recipe: TextRecipe) -> Scores:
    from hypersphere.evaluation.sentences import evaluate_sentences

    kinds = {"sts": sts.TASKS, "transfer": transfer.TASKS}
    chosen = [name for kind in recipe.evaluation.after for name in kinds[kind]]
    if recipe.evaluation.tasks:
        chosen = [name for name in chosen if name in recipe.evaluation.tasks]
    if not chosen:
        return {}
    place = recipe.evaluation.sts
    evaluated = evaluate_sentences(
        str(model), sts=place, transfer=place, tasks=chosen, cache=None,
        precision=recipe.precision, limit=recipe.evaluation.limit,
    )  # fmt: skip
    scores = {name: score.spearman[evaluated.setting] for name, score in evaluated.sts.items()}
    scores |= {name: score.accuracy for name, score in evaluated.transfer.items()}
    if evaluated.sts:
        scores["sts_average"] = evaluated.average()
    if evaluated.transfer:
        scores["transfer_average"] = evaluated.transfer_average()
    return scores
