"""A task ready to run: what text, images and three lines share, their rows, and the Trainer's arguments."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, TypeVar

import torch
from transformers import TrainingArguments

from hypersphere.encoders.heads import Head, projection_head
from hypersphere.engine.distributed import timeout
from hypersphere.evaluation.pairs import in_batches
from hypersphere.training.checkpoints import steps_between
from hypersphere.training.folder import CHECKPOINTS, DataFingerprint
from hypersphere.training.loggers import report_to
from hypersphere.training.monitor import BUDGET, FEWEST
from hypersphere.training.recipe import Recipe
from hypersphere.training.seeding import drawn_order
from hypersphere.training.trainer import Inputs, ObjectiveTraining

Scores = dict[str, float]
Echo = Callable[[str], None]
Arguments = TypeVar("Arguments", bound=TrainingArguments)
FORWARD = 1 / 3  # share of a step's time to embed a batch: the backward pass takes twice as long


class Task(ABC):
    """Data, encoder and Trainer of a recipe. Each task is created from a recipe, a run's folder and ``echo``."""

    key: ClassVar[str]  # the score that decides which weights are best
    trainer: ObjectiveTraining
    views: int  # of an instance; of triples of texts the third is a hard negative
    width: int  # of the encoder's embedding
    sample: Inputs  # a batch of training instances to measure on, always the same
    held_out: list[Inputs]  # batches of instances never trained on, to measure on too
    scored: bool  # whether the task is scored on other data during training
    fingerprint: DataFingerprint | None = None  # None: the data is made from the recipe

    @abstractmethod
    def score(self) -> Scores:
        """Scores on other data during training; called only if the task is scored."""

    @abstractmethod
    def final(self, scores: Scores | None = None) -> Scores:
        """Scores once, at the end; empty if there is nothing to score on. ``scores``: those of ``score`` for the same
        weights, if they are known."""

    @abstractmethod
    def save(self, target: Path) -> None:
        """Writes the encoder in the format its users open."""

    def counted(self) -> dict[str, int]:
        """What the run counted while it trained."""
        return {}

    def geometry(self) -> Scores:
        """The geometry of the data that ``score`` has just embedded."""
        return {}

    def given(self) -> Scores:
        """The scores of ``final`` for the model before the run changes it; empty if it was never trained."""
        return {}


def held_out_rows(total: int, recipe: Recipe) -> tuple[list[int], list[int]]:
    """Rows to train on and rows set aside, drawn with the seed."""
    aside = recipe.data.held_out
    if not aside:
        return list(range(total)), []
    if total - aside < recipe.batch.size:
        raise ValueError(
            f"data.held_out is {aside} of {total} rows; what is left is less than one batch of {recipe.batch.size}"
        )
    order = drawn_order(total, recipe.seed)
    return sorted(order[aside:]), sorted(order[:aside])


def sample_rows(rows: list[int], recipe: Recipe) -> list[int]:
    """A batch of evenly spaced rows: the first rows of a sorted file may all be of one kind."""
    count = min(len(rows), recipe.batch.size)
    return [rows[place * len(rows) // count] for place in range(count)]


def measured_rows(rows: list[int], recipe: Recipe, steps: int, echo: Echo) -> list[list[int]]:
    """Held-out rows in batches of the training's size, drawn with the seed: all of them, or as many as monitor.rows
    allows. With neither monitor.rows nor monitor.every, as many as can be embedded five times in 5 % of the steps'
    time."""
    order = drawn_order(len(rows), recipe.seed)
    most = recipe.monitor.rows or len(rows)
    if recipe.monitor.rows is None and not recipe.monitor.every:
        most = recipe.batch.size * max(1, int(BUDGET * steps / (FORWARD * (FEWEST + 1))) - 1)  # 1: training's batch
        if most < len(rows):
            echo(
                f"Measured: {most} of the {len(rows)} held-out rows, so that measuring takes about {BUDGET:.0%} of the "
                f"time; monitor.rows={len(rows)} measures all."
            )
    return in_batches([rows[place] for place in order[:most]], recipe.batch.size)


def create_head(recipe: Recipe, width: int) -> Head:
    """The head of a recipe for embeddings of a width."""
    head = recipe.head
    return projection_head(head.kind, width, getattr(head, "output", None), getattr(head, "hidden", None))


def arguments(recipe: Recipe, folder: Path, rows: int, kind: type[Arguments], echo: Echo) -> Arguments:
    """The Trainer's arguments; optimiser, batches and evaluation are ours."""
    chosen, missing = report_to(recipe.loggers)
    for sentence in missing:
        echo(sentence)
    per_epoch = max(1, rows // recipe.batch.size)
    steps = max(1, round((recipe.epochs or 1) * per_epoch)) if recipe.steps is None else recipe.steps
    schedule = recipe.schedule
    made = kind(
        output_dir=str(folder / CHECKPOINTS),
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
        save_strategy="steps" if recipe.checkpoint.every else "no",
        save_steps=steps_between(recipe.checkpoint.every or 1, steps),
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
