"""A recipe: everything a training run is, as one validated model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hypersphere.data.integrity import known_name
from hypersphere.data.sts import TASKS as SIMILARITY
from hypersphere.data.transfer import TASKS as TRANSFER
from hypersphere.objectives import create_objective
from hypersphere.objectives.base import Objective
from hypersphere.objectives.files import map_names
from hypersphere.objectives.registry import with_file
from hypersphere.training.effects import EFFECT, NoEffectError, reads_labels
from hypersphere.training.sizes import fill_sizes, sized


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("switch", "Input should be a number, not yes or no")
    return value


# Last in each type: before the range, it would hide the range from the schema, and so from the list of keys.
_NUMBER = BeforeValidator(_no_switch)
Positive = Annotated[float, Field(gt=0), _NUMBER]
NotNegative = Annotated[float, Field(ge=0), _NUMBER]
Share = Annotated[float, Field(ge=0, lt=1), _NUMBER]
Fraction = Annotated[float, Field(ge=0, le=1), _NUMBER]
Strength = Annotated[float, Field(ge=0, le=2), _NUMBER]
Passes = Annotated[float, Field(gt=0, le=1e6), _NUMBER]
Count = Annotated[int, Field(ge=1), _NUMBER]
Several = Annotated[int, Field(ge=2), _NUMBER]
Whole = Annotated[int, Field(ge=0), _NUMBER]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1), _NUMBER]  # numpy's random generator takes no larger one


class Part(BaseModel):
    """A section of a recipe. An unknown key is an error; a value is checked when it is set."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True, allow_inf_nan=False)


class Data(Part):
    """What is trained on."""

    source: str = Field(description="a text file, an image set ('digits', a folder, an archive), or hf:dataset-id")
    views: Literal["dropout", "pairs", "triples"] = Field(
        "dropout", description="the sentence twice under dropout, or the two or three texts of a row"
    )
    columns: list[str] | None = Field(None, description="names of the columns that hold the texts; null: the first")
    size: Count | None = Field(
        None, description="every picture becomes a square of this side: shorter side to it, then the middle"
    )
    rows: Whole = Field(0, description="keep only the first rows; 0: all")
    held_out: Whole = Field(0, description="rows set aside to measure on, never trained on; 0, or at least 2")
    labels: Fraction = Field(1.0, description="share of instances whose label is used")
    noise: NotNegative = Field(0.05, description="standard deviation of the points about their line")


class Encoder(Part):
    """What is trained."""

    name: str = Field(description="text: hub id or folder; images: small-cnn, resnet18, resnet50, mlp")
    pooling: Literal["cls", "mean", "first-last"] | None = Field(
        None,
        description="how tokens become one embedding, in place of the modules after the transformer; null: a "
        "SentenceTransformer keeps all its modules, a plain transformer gets cls",
    )
    max_length: Count | None = Field(
        None, description="tokens beyond it are cut off; null: the SentenceTransformer's own, else 32"
    )
    dropout: Share | None = Field(None, description="replaces the encoder's own dropout; null: leave it")
    stem: Literal["cifar", "imagenet"] = Field("cifar", description="first layers: for small images or for 224 pixels")
    weights: str | None = Field(None, description="folder or hub id of weights to start from; null: random")
    hidden: list[Count] = Field([64, 64], description="widths of the layers, the last one the embedding's")
    width: Count = Field(32, description="channels of the first layer; the embedding has four times as many")
    norm: Literal["batch", "group", "none"] = Field(
        "batch", description="normalisation over the batch; small-cnn: or group, each image by itself; mlp: or none"
    )


class Augmentation(Part):
    """How two views of an image are made."""

    name: Literal["simclr", "cloa", "shift", "none"] = Field(
        "simclr", description="crops, flips and colours; mild crops and colours; small turns and shifts; none"
    )
    strength: Strength = Field(0.5, description="strength of the colour changes")
    size: Whole = Field(0, description="side of the views in pixels; 0: that of the images")


class Head(Part):
    """What stands on the encoder while it trains."""

    kind: Literal["none", "linear-tanh", "simcse", "simclr", "mlp"] = Field(
        "none",
        description="none: the objective sees the encoder's own embedding; simcse: linear-tanh on a plain transformer, "
        "none on a SentenceTransformer; SimCLR's; mlp: your widths",
    )
    hidden: list[Count] | None = Field(None, description="widths of its layers, ReLU between them")
    output: Count | None = Field(None, description="width of what comes out; null: as the kind has it")
    keep: bool = Field(False, description="a simcse or linear-tanh head stays in the saved model")


class Optimizer(Part):
    """How the weights move."""

    name: Literal["adamw", "sgd", "lars"] = Field("adamw", description="which optimiser")
    lr: Positive = Field(3e-5, description="highest learning rate")
    weight_decay: NotNegative = Field(0.0, description="decay of the weights, not of biases and norms")
    momentum: Share = Field(0.9, description="share of the last step that is kept")
    max_grad_norm: NotNegative = Field(1.0, description="longer gradients are scaled down to this length; 0: never")


class Schedule(Part):
    """How the learning rate changes."""

    name: Literal["linear", "cosine", "constant"] = Field("linear", description="how it falls to 0, or that it stays")
    warmup: Share = Field(0.0, description="share of the steps in which the rate rises from 0")


class Batch(Part):
    """How many instances meet in a step."""

    size: Several = Field(64, description="instances in a batch, over all processes")
    chunk: Whole = Field(0, description="rows embedded at a time, of like length; 0: an eighth of the batch's")
    cache: bool = Field(False, description="gradient cache: keep one chunk's activations at a time")


class Evaluation(Part):
    """What is measured on other data while training, and at the end."""

    sts: str | None = Field(None, description="folder in SentEval's layout, or of STS-B alone; null: no score")
    every: Count = Field(125, description="steps between evaluations")
    best: bool = Field(True, description="keep the weights that did best, not the last ones")
    test: bool = Field(True, description="look at the test set at the end; false while settings are being chosen")
    shots: Whole = Field(
        0, description="neighbours are looked for among so many labelled images of each class, mean of 20 draws; 0: all"
    )
    knn: bool = Field(True, description="k-nearest-neighbour accuracy, where the images have labels")
    after: list[Literal["sts", "transfer", "linear", "mlp", "finetune"]] = Field(
        [],
        description="measured of the final model on the test sets: text: the seven STS sets, the seven transfer sets "
        "of evaluation.sts; images: probes",
    )
    tasks: list[str] = Field(
        [], description="the sets of similarity and transfer that evaluation.after measures (STS13, CR, …); empty: all"
    )
    shares: list[Fraction] = Field([1.0], description="shares of the labels that each of these probes learns from")


class Monitoring(Part):
    """What is measured of the run itself."""

    every: Whole = Field(0, description="steps between measurements; 0: as 5 % of the time allows, four at least")
    rows: Several | None = Field(
        None, description="held-out rows measured, in batches of the training's size; null: as 5 % of the time allows"
    )


class Checkpoints(Part):
    """What a run that was interrupted continues from."""

    every: Count = Field(500, description="steps between checkpoints; every run has at least four")
    keep: Several = Field(2, description="how many stay on the disk")


class About(Part):
    """What to expect, for `hypersphere recipes`; without effect on the run."""

    summary: str = Field("", description="one line")
    source: str = Field("", description="paper and table")
    hardware: str = Field("", description="what it runs on")
    minutes: float | None = Field(None, description="how long it takes there")
    expect: str = Field("", description="the number to see")
    measured: bool = Field(False, description="measured here; otherwise published and not run here")


class Recipe(Part):
    """One run: ``task`` says which world, the rest is the same for all."""

    task: Literal["text", "image", "three-lines"] = Field(
        description="what is embedded: sentences, images, or the points of CLOA's synthetic world"
    )
    data: Data
    encoder: Encoder
    augmentation: Augmentation = Augmentation()
    head: Head = Head()
    objective: dict[str, Any] = Field(
        {"name": "infonce"}, description="a name of `hypersphere objectives`, or mine.py:NAME"
    )
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    batch: Batch = Batch()
    epochs: Passes | None = Field(None, description="passes over the data (or give steps)")
    steps: Whole | None = Field(
        None, description="optimiser steps (or give epochs); 0: the encoder is scored as it was given"
    )
    seed: Seed = Field(42, description="of weights, order, views and held-out rows")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="of the encoder's arithmetic")
    evaluation: Evaluation = Evaluation()
    monitor: Monitoring = Monitoring()
    checkpoint: Checkpoints = Checkpoints()
    loggers: list[Literal["tensorboard", "wandb", "mlflow"]] = Field(
        ["tensorboard"], description="where measurements go beside metrics.jsonl, of those that are installed"
    )
    output: str = Field("", description="the run's folder; default: runs/ and the recipe's name")
    about: About = About()

    @field_validator("objective")
    @classmethod
    def _locate(cls, value: dict[str, Any]) -> dict[str, Any]:
        """An objective of one's own goes by the absolute path of its file, which holds in every working directory."""
        located: dict[str, Any] = map_names(value, with_file)
        return located

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
        self._check_after()
        if self.head.kind == "simcse" and self.task != "text":
            raise ValueError("head.kind simcse is for text")
        if self.head.keep and (self.task != "text" or self.head.kind not in ("simcse", "linear-tanh")):
            raise ValueError("head.keep is for a linear-tanh head on text; other heads are used in training only")
        if self.head.keep and (self.head.hidden or self.head.output):
            raise ValueError("a head that is kept is as wide as the encoder: leave out head.hidden and head.output")
        objective = self.create_objective()
        if self.task == "text" and reads_labels(objective):
            raise ValueError(f"{objective.name} reads labels, and text has none")
        return self

    def _check_after(self) -> None:
        fitting = {"text": ("sts", "transfer"), "image": ("linear", "mlp", "finetune")}.get(self.task, ())
        for each in self.evaluation.after:
            if each not in fitting:
                raise ValueError(f"evaluation.after has {each}, but for {self.task} there is {' and '.join(fitting)}")
        for name in self.evaluation.tasks:
            known_name(name, (*SIMILARITY, *TRANSFER), "set in evaluation.tasks")
        if self.task == "text" and self.evaluation.after and self.evaluation.sts is None:
            raise ValueError("evaluation.after needs the folder of the sets: evaluation.sts=FOLDER")

    def _refuse_what_has_no_effect(self) -> None:
        for key, use in EFFECT.items():
            section, _, name = key.partition(".")
            part = getattr(self, section)
            if getattr(part, name) != type(part).model_fields[name].get_default() and not use.holds(self):
                raise NoEffectError(key, use.words)
        if self.task == "three-lines" and (self.data.source, self.encoder.name) != ("three-lines", "mlp"):
            raise ValueError("three-lines has data.source=three-lines and encoder.name=mlp")

    def create_objective(self, *, gather: bool = False) -> Objective:
        """The objective as its own checks allow it; ``gather``: negatives of all processes.

        Sizes that the run decides (see ``fitted``) are stood in for by the smallest possible ones."""
        if "name" not in self.objective:
            raise ValueError("objective.name is missing: hypersphere objectives lists the names")
        if "gather" in self.objective:
            raise ValueError("objective.gather is always on: the negatives of all processes are shared")
        given = fill_sizes(self.objective)
        found = create_objective(str(given.pop("name")), **given, gather=gather)
        if found.reduction == "none":
            raise ValueError("objective.reduction must be mean or sum: a run needs one number to make small")
        return found

    def fitted(self, num_classes: int, dim: int) -> Recipe:
        """The recipe with the number of classes in the data and the width of what the objective sees, where its
        objective needs them and does not give them. Those it gives must fit."""
        objective = fill_sizes(self.objective, num_classes, dim)
        for each in sized(objective):
            if each["dim"] != dim:
                raise ValueError(
                    f"{each['name']}'s dim is {each['dim']}, but what the objective sees has {dim} dimensions: leave "
                    "it out, and the run gives it"
                )
            if each["num_classes"] < num_classes:
                raise ValueError(
                    f"{each['name']}'s num_classes is {each['num_classes']}, but the data has {num_classes} classes: "
                    "leave it out, and the run gives it"
                )
        return self.model_copy(update={"objective": objective})
