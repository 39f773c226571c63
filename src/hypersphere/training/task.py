"""A task ready to run, and what all tasks share: held-out rows and the Trainer's arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hypersphere.encoders.heads import Head, projection_head
from hypersphere.engine.distributed import timeout
from hypersphere.evaluation.pairs import in_batches
from hypersphere.training.checkpoints import steps_between
from hypersphere.training.content import Content
from hypersphere.training.loggers import report_to
from hypersphere.training.monitor import BUDGET, FEWEST
from hypersphere.training.recipe import Recipe
from hypersphere.training.trainer import ObjectiveTraining, ViewLoss

Scores = dict[str, float]
FORWARD = 1 / 3  # of a step's time, to embed a batch: the backward pass takes twice as long


@dataclass
class Task:
    """What a recipe's task made of its data and encoder."""

    trainer: ObjectiveTraining
    views: int  # of an instance; the third is a hard negative
    width: int  # of the encoder's embedding
    sample: dict[str, Any]  # a batch of training instances to measure on, always the same
    held_out: list[dict[str, Any]]  # batches of instances never trained on, to measure on too
    score: Callable[[], Scores] | None  # on other data, while training
    final: Callable[[], Scores] | None  # once, at the end
    key: str  # the score that decides which weights are best
    save: Callable[[Path], None]  # the encoder, in the form its users open
    geometry: Callable[[], Scores] | None = None  # of the data that ``score`` has just embedded
    given: Callable[[], Scores] | None = None  # what ``final`` measures, of the model before the run changes anything
    content: Content | None = None  # of the data; None: made from the recipe


def held_out_rows(total: int, recipe: Recipe) -> tuple[list[int], list[int]]:
    """Rows to train on and rows set aside, drawn with the seed."""
    aside = recipe.data.held_out
    if not aside:
        return list(range(total)), []
    if total - aside < recipe.batch.size:
        raise ValueError(
            f"data.held_out is {aside} of {total} rows; what is left is less than one batch of {recipe.batch.size}"
        )
    order = torch.randperm(total, generator=torch.Generator().manual_seed(recipe.seed)).tolist()
    return sorted(order[aside:]), sorted(order[:aside])


def sample_rows(rows: list[int], recipe: Recipe) -> list[int]:
    """A batch of the rows, evenly spread, since the first ones of a sorted file may all be of one kind."""
    count = min(len(rows), recipe.batch.size)
    return [rows[place * len(rows) // count] for place in range(count)]


def measured_rows(rows: list[int], recipe: Recipe, steps: int, say: Callable[[str], None]) -> list[list[int]]:
    """Held-out rows in batches of the training's size, drawn with the seed: all of them, or as many as monitor.rows
    allows, or, if the monitor is left to itself, as many as can be embedded five times in 5 % of the steps' time."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(recipe.seed)).tolist()
    most = recipe.monitor.rows or len(rows)
    if recipe.monitor.rows is None and not recipe.monitor.every:
        most = recipe.batch.size * max(1, int(BUDGET * steps / (FORWARD * (FEWEST + 1))) - 1)  # 1: training's batch
        if most < len(rows):
            say(
                f"Measured: {most} of the {len(rows)} held-out rows, so that measuring takes about {BUDGET:.0%} of the "
                f"time; monitor.rows={len(rows)} measures all."
            )
    return in_batches([rows[place] for place in order[:most]], recipe.batch.size)


def view_loss(recipe: Recipe, width: int) -> ViewLoss:
    """Head and objective of a recipe on embeddings of a width; 0: the head is the encoder's own."""
    return ViewLoss(recipe.create_objective(gather=True), create_head(recipe, width) if width else None)


def create_head(recipe: Recipe, width: int) -> Head:
    """The head of a recipe on embeddings of a width."""
    return projection_head(recipe.head.kind, width, recipe.head.output, recipe.head.hidden)


def arguments(recipe: Recipe, folder: Path, rows: int, kind: type[Any], say: Callable[[str], None]) -> Any:
    """The Trainer's arguments; optimiser, batches and evaluation are ours."""
    chosen, missing = report_to(recipe.loggers)
    for sentence in missing:
        say(sentence)
    per_epoch = max(1, rows // recipe.batch.size)
    steps = max(1, round((recipe.epochs or 1) * per_epoch)) if recipe.steps is None else recipe.steps
    schedule = recipe.schedule
    made = kind(
        output_dir=str(folder / "checkpoints"),
        max_steps=steps,
        per_device_train_batch_size=recipe.batch.size,
        learning_rate=recipe.optimizer.lr,
        weight_decay=recipe.optimizer.weight_decay,
        max_grad_norm=recipe.optimizer.max_grad_norm,
        lr_scheduler_type="constant_with_warmup" if schedule.name == "constant" else schedule.name,
        warmup_steps=math.ceil(schedule.warmup * steps),
        seed=recipe.seed,
        bf16=recipe.precision == "bf16",
        fp16=recipe.precision == "fp16",
        save_strategy="steps",
        save_steps=steps_between(recipe.checkpoint.every, steps),
        save_total_limit=recipe.checkpoint.keep,
        eval_strategy="no",
        logging_steps=max(1, min(50, steps // 20)),
        logging_nan_inf_filter=False,
        report_to=chosen,
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_backend="gloo" if "WORLD_SIZE" in os.environ and not torch.cuda.is_available() else None,
        ddp_timeout=math.ceil(timeout().total_seconds()),
        ddp_find_unused_parameters=False,
        use_cpu=not torch.cuda.is_available(),
        disable_tqdm=False,
    )
    _ = made.device
    made._n_gpu = 1  # one process, one device; torchrun for several
    return made
