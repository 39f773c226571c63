"""A recipe: everything a training run is, as one validated model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from hypersphere.objectives import create_objective
from hypersphere.objectives.base import Objective, within


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("switch", "Input should be a number, not yes or no")
    return value


Integer = Annotated[int, BeforeValidator(_no_switch)]
Number = Annotated[float, BeforeValidator(_no_switch)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, lt=1)]
Count = Annotated[Integer, Field(ge=1)]
Several = Annotated[Integer, Field(ge=2)]
Whole = Annotated[Integer, Field(ge=0)]
Passes = Annotated[Number, Field(gt=0, le=1e6)]
Seed = Annotated[Integer, Field(ge=0, le=2**32 - 1)]  # numpy's random generator takes no larger one


class NoEffectError(ValueError):
    """A key that a recipe has no use for."""

    def __init__(self, key: str, use: str) -> None:
        super().__init__(f"{key} is for {use}; here it would have no effect")
        self.key = key


class Part(BaseModel):
    """A section of a recipe. An unknown key is an error; a value is checked when it is set."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True, allow_inf_nan=False)


class Data(Part):
    """What is trained on."""

    source: str = Field(description="a text file, an image set ('digits', a folder, an archive), or hf:dataset-id")
    views: Literal["dropout", "pairs", "triples"] = Field("dropout", description="text: the sentence twice, or given")
    columns: list[str] | None = Field(None, description="text: names of the columns that hold the texts")
    size: Count | None = Field(None, description="images of many sizes: shorter side in pixels, then the middle")
    rows: Whole = Field(0, description="keep only the first rows; 0: all")
    held_out: Whole = Field(0, description="rows set aside to measure on, never trained on; 0, or at least 2")
    labels: Annotated[Number, Field(ge=0, le=1)] = Field(1.0, description="share of images whose label is used")
    noise: NotNegative = Field(0.05, description="three lines: standard deviation about the line")


class Encoder(Part):
    """What is trained."""

    name: str = Field(description="text: hub id or folder; images: small-cnn, resnet18, resnet50, mlp")
    pooling: Literal["cls", "mean", "first-last"] | None = Field("cls", description="text; null: as the model has it")
    max_length: Count = Field(32, description="text: tokens beyond it are cut off")
    dropout: Share | None = Field(None, description="text: replaces the encoder's own; null: leave it")
    stem: Literal["cifar", "imagenet"] = Field("cifar", description="ResNet's first layers")
    weights: str | None = Field(None, description="images: folder or hub id to start from; null: random")
    hidden: list[Count] = Field([64, 64], description="mlp: widths")
    width: Count = Field(32, description="small-cnn: channels of the first layer")
    norm: Literal["batch", "group"] = Field("batch", description="small-cnn: normalisation")


class Augmentation(Part):
    """How two views of an image are made."""

    name: Literal["simclr", "cloa", "shift", "none"] = "simclr"
    strength: Annotated[Number, Field(ge=0, le=2)] = Field(0.5, description="simclr: strength of the colour changes")
    size: Whole = Field(0, description="resize to this many pixels; 0: as they are")


class Head(Part):
    """What stands on the encoder while it trains."""

    kind: Literal["none", "linear-tanh", "simclr", "cloa", "cloa-cifar100", "mlp"] = "none"
    hidden: list[Count] | None = Field(None, description="mlp: widths, ReLU between them")
    output: Count | None = Field(None, description="width of what comes out; null: as the kind has it")
    keep: bool = Field(False, description="text, linear-tanh: the head stays in the saved model")


class Optimizer(Part):
    name: Literal["adamw", "sgd", "lars"] = "adamw"
    lr: Positive = 3e-5
    weight_decay: NotNegative = 0.0
    momentum: Share = Field(0.9, description="sgd, lars")
    max_grad_norm: NotNegative = Field(1.0, description="gradients are scaled down to it; 0: never")


class Schedule(Part):
    name: Literal["linear", "cosine", "constant"] = "linear"
    warmup: Share = Field(0.0, description="share of the steps in which the rate rises from 0")


class Batch(Part):
    size: Several = Field(64, description="instances in a batch, over all processes")
    chunk: Whole = Field(0, description="text: rows embedded at a time, of like length; 0: an eighth of the batch's")
    cache: bool = Field(False, description="gradient cache: keep one chunk's activations at a time")


class Evaluation(Part):
    """What is measured on other data while training, and at the end."""

    sts: str | None = Field(None, description="text: folder in SentEval's layout, or of STS-B alone")
    every: Count = Field(125, description="steps between evaluations")
    best: bool = Field(True, description="keep the weights that did best, not the last ones")
    knn: bool = Field(True, description="images: k-nearest-neighbour accuracy of held-out images")


class Monitoring(Part):
    every: Whole = Field(0, description="steps between measurements; 0: as 5 % of the time allows, four at least")
    rows: Several = Field(256, description="rows measured, a batch at most")


class Checkpoints(Part):
    every: Count = Field(500, description="steps between checkpoints")
    keep: Several = Field(2, description="how many stay on the disk")


class About(Part):
    """What to expect, for `hypersphere recipes`."""

    summary: str = ""
    source: str = Field("", description="paper and table")
    hardware: str = ""
    minutes: float | None = None
    expect: str = Field("", description="the number to see")
    measured: bool = Field(False, description="measured here; otherwise published and not run here")


class Recipe(Part):
    """One run: ``task`` says which world, the rest is the same for all."""

    task: Literal["text", "image", "three-lines"]
    data: Data
    encoder: Encoder
    augmentation: Augmentation = Augmentation()
    head: Head = Head()
    objective: dict[str, Any] = Field({"name": "infonce"}, description="a name of `hypersphere objectives`, parameters")
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    batch: Batch = Batch()
    epochs: Passes | None = Field(None, description="passes over the data (or give steps)")
    steps: Count | None = Field(None, description="optimiser steps (or give epochs)")
    seed: Seed = 42
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    evaluation: Evaluation = Evaluation()
    monitor: Monitoring = Monitoring()
    checkpoint: Checkpoints = Checkpoints()
    loggers: list[Literal["tensorboard", "wandb", "mlflow"]] = ["tensorboard"]
    output: str = Field("", description="the run's folder; default: runs/ and the recipe's name")
    about: About = About()

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("a recipe says either epochs or steps")
        if self.data.held_out == 1:
            raise ValueError(
                "data.held_out is 1: it should be 0, or at least 2, for there is nothing to compare one with"
            )
        if self.task == "three-lines" and self.data.rows % 3:
            raise ValueError(f"data.rows is {self.data.rows}: three lines of as many points each have a multiple of 3")
        self._refuse_what_has_no_effect()
        if self.head.keep and (self.task != "text" or self.head.kind != "linear-tanh"):
            raise ValueError("head.keep is for a linear-tanh head on text; other heads are used in training only")
        if self.head.keep and (self.head.hidden or self.head.output):
            raise ValueError("a head that is kept is as wide as the encoder: leave out head.hidden and head.output")
        objective = self.create_objective()
        if self.task == "text" and _reads_labels(objective):
            raise ValueError(f"{objective.name} reads labels, and text has none")
        return self

    def _refuse_what_has_no_effect(self) -> None:
        for key, use in EFFECT.items():
            section, _, name = key.partition(".")
            part = getattr(self, section)
            if getattr(part, name) != type(part).model_fields[name].get_default() and not use.holds(self):
                raise NoEffectError(key, use.words)
        if self.task == "three-lines" and (self.data.source, self.encoder.name) != ("three-lines", "mlp"):
            raise ValueError("three-lines has data.source=three-lines and encoder.name=mlp")

    def create_objective(self, *, gather: bool = False) -> Objective:
        """The objective as its own checks allow it; ``gather``: negatives of all processes."""
        given = dict(self.objective)
        if "name" not in given:
            raise ValueError("objective.name is missing: hypersphere objectives lists the names")
        name = given.pop("name")
        if "gather" in given:
            raise ValueError("objective.gather is always on: the negatives of all processes are shared")
        found = create_objective(str(name), **given, gather=gather)
        if found.reduction == "none":
            raise ValueError("objective.reduction must be mean or sum: a run needs one number to make small")
        return found


def _reads_labels(objective: Objective) -> bool:
    return any(getattr(each, "labelled", False) or getattr(each, "name", "") == "cloa" for each in within(objective))


def _scored(recipe: Recipe) -> bool:
    """Whether there is a score while the run goes on."""
    if recipe.task == "text":
        return recipe.evaluation.sts is not None
    return recipe.task == "image" and recipe.data.held_out > 0 and recipe.evaluation.knn


class Use(NamedTuple):
    """Where a key has an effect."""

    words: str
    holds: Callable[[Recipe], bool]


_TEXT = Use("text", lambda recipe: recipe.task == "text")
_IMAGE = Use("images", lambda recipe: recipe.task == "image")
_RESNET = Use("ResNets", lambda recipe: recipe.task == "image" and recipe.encoder.name.startswith("resnet"))
_CNN = Use("small-cnn", lambda recipe: recipe.task == "image" and recipe.encoder.name == "small-cnn")
_SCORED = Use("runs with a score: text with evaluation.sts, images with data.held_out and evaluation.knn", _scored)
EFFECT = {
    **dict.fromkeys(("data.views", "data.columns", "encoder.pooling", "encoder.max_length", "encoder.dropout"), _TEXT),
    **dict.fromkeys(("head.keep", "batch.chunk", "batch.cache", "evaluation.sts"), _TEXT),
    **dict.fromkeys(("augmentation.name", "augmentation.size", "evaluation.knn"), _IMAGE),
    **dict.fromkeys(("evaluation.every", "evaluation.best"), _SCORED),
    "data.size": Use("images of many sizes", lambda r: r.task == "image" and r.data.source != "digits"),
    **dict.fromkeys(("encoder.stem", "encoder.weights"), _RESNET),
    **dict.fromkeys(("encoder.width", "encoder.norm"), _CNN),
    "data.labels": Use(
        "images and three-lines, with an objective that reads labels",
        lambda recipe: recipe.task != "text" and _reads_labels(recipe.create_objective()),
    ),
    "data.noise": Use("three-lines", lambda recipe: recipe.task == "three-lines"),
    "encoder.hidden": Use("mlp", lambda recipe: recipe.encoder.name == "mlp"),
    "head.hidden": Use("an mlp head", lambda recipe: recipe.head.kind == "mlp"),
    "augmentation.strength": Use("simclr views", lambda r: r.task == "image" and r.augmentation.name == "simclr"),
    "optimizer.momentum": Use("sgd and lars", lambda recipe: recipe.optimizer.name != "adamw"),
}  # fmt: skip
