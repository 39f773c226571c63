"""What a recipe asks to be measured of the final model: probes of images, the sets of similarity and transfer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from hypersphere.training.recipe import Recipe
from hypersphere.training.task import Scores


def measure_after(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> Scores:
    """Scores of the model in a run's folder, by name; accuracies and correlations × 100.

    images: ``linear_0.1`` (probe and share of the labels), ``linear_0.1_top5``, and ``variance`` of the encoder's
        output on the test images, summed over its dimensions.
    text: every set by its name, ``sts_average``, ``transfer_average``.
    """
    wanted = recipe.evaluation.after
    if not wanted:
        return {}
    if recipe.task == "image":
        return _probed(folder, wanted, recipe.evaluation.shares, say)
    return _sentences(folder / "model", recipe)


def _probed(folder: Path, probes: Sequence[str], shares: Sequence[float], say: Callable[[str], None]) -> Scores:
    from hypersphere.evaluation.probes import evaluate_run, output_variance

    scores: Scores = {"variance": output_variance(folder)}
    for probe, share in itertools.product(probes, shares):
        name = f"{probe}_{share:g}"
        try:
            found = evaluate_run(folder, probe, [share], seeds=1)
        except ValueError as error:  # a probe that diverges on features of any size costs its score, not the run
            say(f"No score {name}: {error}.")
            scores[name] = math.nan
            continue
        scores[name] = 100 * found.scores[0].top1
        if found.scores[0].top5 is not None:
            scores[f"{name}_top5"] = 100 * found.scores[0].top5
    return scores


def _sentences(model: Path, recipe: Recipe) -> Scores:
    from hypersphere.data import sts, transfer
    from hypersphere.evaluation.sentences import evaluate_sentences

    kinds = {"sts": sts.TASKS, "transfer": transfer.TASKS}
    chosen = [name for kind in recipe.evaluation.after for name in kinds[kind]]
    if recipe.evaluation.tasks:
        chosen = [name for name in chosen if name in recipe.evaluation.tasks]
    if not chosen:
        return {}
    place = recipe.evaluation.sts
    found = evaluate_sentences(str(model), sts=place, transfer=place, tasks=chosen, cache=None)
    scores = {name: score.spearman[found.setting] for name, score in found.sts.items()}
    scores |= {name: score.accuracy for name, score in found.transfer.items()}
    if found.sts:
        scores["sts_average"] = found.average()
    if found.transfer:
        scores["transfer_average"] = found.transfer_average()
    return scores
