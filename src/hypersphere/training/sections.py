"""The sections of a recipe: one model for each task where tasks differ, and for each name where names differ.

A key stands only in the models in which it has an effect. Where that depends on a value of another section, the key is
marked ``OnlyFor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hypersphere.data.integrity import known_name
from hypersphere.data.sts import TASKS as SIMILARITY
from hypersphere.data.transfer import TASKS as TRANSFER


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("switch", "Input should be a number, not yes or no")
    return value


# Comes last in each type: before the range, it would hide the range from the schema, and so from the list of keys.
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


@dataclass(frozen=True)
class OnlyFor:
    """Marks a key that has an effect only in some runs: a description of them, and the value that decides it."""

    words: str
    needs: str  # the key or property that must be set, such as data.held_out


_SCORED = OnlyFor("runs with a score (text: evaluation.sts; images: data.held_out and evaluation.knn)", "scored")
_LOCAL = OnlyFor("simclr views with augmentation.local_views", "augmentation.local_views")
_LABELLED = OnlyFor("images and three-lines, with an objective that reads labels", "reads_labels")


def _unless_given(key: str, value: str) -> BeforeValidator:
    """Fills in the value that chooses a section's model, if the section does not give it."""
    return BeforeValidator(
        lambda section: {key: value, **section} if isinstance(section, Mapping) and key not in section else section
    )


class Part(BaseModel):
    """A section of a recipe. An unknown key is an error; a value is checked when it is set."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True, allow_inf_nan=False)


# --- data


class Data(Part):
    """What is trained on."""

    source: str = Field(description="a text file, an image set ('digits', a folder, an archive), or hf:dataset-id")
    rows: Whole = Field(0, description="keep only the first rows; 0: all")
    held_out: Whole = Field(0, description="rows set aside to measure on, never trained on; 0, or at least 2")

    @field_validator("held_out")
    @classmethod
    def _comparable(cls, value: int) -> int:
        if value == 1:
            raise ValueError(
                "data.held_out is 1: it should be 0, or at least 2, for there is nothing to compare one with"
            )
        return value


class TextData(Data):
    """Sentences, or pairs and triples of them."""

    views: Literal["dropout", "pairs", "triples"] = Field(
        "dropout", description="the sentence twice under dropout, or the two or three texts of a row"
    )
    columns: list[str] | None = Field(None, description="names of the columns that hold the texts; null: the first")


class ImageData(Data):
    """Images, with labels or without."""

    size: Annotated[Count | None, OnlyFor("images of many sizes", "data.of_many_sizes")] = Field(
        None, description="every picture becomes a square of this side: shorter side to it, then the middle"
    )
    labels: Annotated[Fraction, _LABELLED] = Field(1.0, description="share of instances whose label is used")

    @property
    def of_many_sizes(self) -> bool:
        """Whether the images may differ in size, judging by the name of the source."""
        return self.source != "digits"


class ThreeLinesData(Data):
    """Points about three lines in R³."""

    source: Literal["three-lines"] = Field(description=str(Data.model_fields["source"].description))
    labels: Annotated[Fraction, _LABELLED] = Field(1.0, description="share of instances whose label is used")
    noise: NotNegative = Field(0.05, description="standard deviation of the points about their line")

    @field_validator("rows")
    @classmethod
    def _as_many_each(cls, value: int) -> int:
        if value % 3:
            raise ValueError(f"data.rows is {value}: three lines of as many points each have a multiple of 3")
        return value


# --- encoder

_ENCODER = "text: hub id or folder; images: small-cnn, resnet18, resnet50, mlp"
_NORM = "normalisation over the batch; small-cnn: or group, each image by itself; mlp: or none"


class Encoder(Part):
    """What is trained."""

    name: str = Field(description=_ENCODER)


class TextEncoder(Encoder):
    """A transformer, or a SentenceTransformer."""

    pooling: Literal["cls", "mean", "first-last"] | None = Field(
        None,
        description="how tokens become one embedding, in place of the modules after the transformer; null: a "
        "SentenceTransformer keeps all its modules, a plain transformer gets cls",
    )
    max_length: Count | None = Field(
        None, description="tokens beyond it are cut off; null: the SentenceTransformer's own, else 32"
    )
    dropout: Share | None = Field(None, description="replaces the encoder's own dropout; null: leave it")


class ResNet(Encoder):
    """A ResNet of 18 or 50 layers."""

    name: Literal["resnet18", "resnet50"] = Field(description=_ENCODER)
    stem: Literal["cifar", "imagenet"] = Field("cifar", description="first layers: for small images or for 224 pixels")
    weights: str | None = Field(None, description="folder or hub id of weights to start from; null: random")


class SmallCNN(Encoder):
    """Three convolutions."""

    name: Literal["small-cnn"] = Field(description=_ENCODER)
    width: Count = Field(32, description="channels of the first layer; the embedding has four times as many")
    norm: Literal["batch", "group"] = Field("batch", description=_NORM)


class MLP(Encoder):
    """Dense layers on the pixels, or on the coordinates of a point."""

    name: Literal["mlp"] = Field(description=_ENCODER)
    hidden: list[Count] = Field([64, 64], description="widths of the layers, the last one the embedding's")
    norm: Literal["batch", "none"] = Field("batch", description=_NORM)


ImageEncoder = Annotated[ResNet | SmallCNN | MLP, Field(discriminator="name")]

# --- augmentation

_VIEWS = "crops, flips and colours; mild crops and colours; small turns and shifts; none"


class Augmentation(Part):
    """How the views of an image are made."""

    name: str
    size: Whole = Field(0, description="side of the views in pixels; 0: that of the images")
    views: Several = Field(2, description="views of an image; an objective that compares two takes more in pairwise")


class SimCLRViews(Augmentation):
    """SimCLR's crops, flips and colours."""

    name: Literal["simclr"] = Field("simclr", description=_VIEWS)
    strength: Strength = Field(0.5, description="strength of the colour changes")
    local_views: Whole = Field(0, description="further views of small crops, after the others")
    local_scale: Annotated[list[Fraction], _LOCAL] = Field(
        [0.05, 0.4], description="smallest and largest share of the image in a small crop"
    )
    local_size: Annotated[Whole, _LOCAL] = Field(0, description="side of small crops in pixels; 0: as other views")

    @field_validator("local_scale")
    @classmethod
    def _is_a_range(cls, value: list[float]) -> list[float]:
        if len(value) != 2 or not 0 < value[0] <= value[1]:
            raise ValueError(
                f"augmentation.local_scale is {value}: it should be the smallest share, above 0, and the largest"
            )
        return value


class OtherViews(Augmentation):
    """Views whose strength is fixed."""

    name: Literal["cloa", "shift", "none"] = Field(description=_VIEWS)


ImageAugmentation = Annotated[SimCLRViews | OtherViews, Field(discriminator="name"), _unless_given("name", "simclr")]

# --- head

_HEAD = (
    "none: the objective sees the encoder's own embedding; simcse: linear-tanh on a plain transformer, none on a "
    "SentenceTransformer; SimCLR's; mlp: your widths"
)
_OUTPUT = "width of what comes out; null: as the kind has it"


class Head(Part):
    """What stands on the encoder while it trains."""

    kind: str


class NoHead(Head):
    """The objective sees the encoder's own embedding."""

    kind: Literal["none"] = Field("none", description=_HEAD)


class ProjectionHead(Head):
    """SimCSE's or SimCLR's layers, used in training only."""

    kind: Literal["linear-tanh", "simclr"] = Field(description=_HEAD)
    output: Count | None = Field(None, description=_OUTPUT)


class SimCLRHead(Head):
    """SimCLR's layers on text, used in training only."""

    kind: Literal["simclr"] = Field(description=_HEAD)
    output: Count | None = Field(None, description=_OUTPUT)


class SentenceHead(Head):
    """SimCSE's layer on text, which the saved model may keep."""

    kind: Literal["linear-tanh", "simcse"] = Field(description=_HEAD)
    output: Count | None = Field(None, description=_OUTPUT)
    keep: bool = Field(False, description="a simcse or linear-tanh head stays in the saved model")

    @model_validator(mode="after")
    def _as_wide_as_the_encoder(self) -> SentenceHead:
        if self.keep and self.output:
            raise ValueError("a head that is kept is as wide as the encoder: leave out head.output")
        return self


class MLPHead(Head):
    """Dense layers of given widths, used in training only."""

    kind: Literal["mlp"] = Field(description=_HEAD)
    hidden: list[Count] | None = Field(None, description="widths of its layers, ReLU between them")
    output: Count | None = Field(None, description=_OUTPUT)


TextHead = Annotated[
    NoHead | SentenceHead | SimCLRHead | MLPHead, Field(discriminator="kind"), _unless_given("kind", "none")
]
ImageHead = Annotated[NoHead | ProjectionHead | MLPHead, Field(discriminator="kind"), _unless_given("kind", "none")]

# --- optimizer, schedule, batch


class Optimizer(Part):
    """How the weights move."""

    name: str
    lr: Positive = Field(3e-5, description="highest learning rate")
    weight_decay: NotNegative = Field(0.0, description="decay of the weights, not of biases and norms")
    max_grad_norm: NotNegative = Field(1.0, description="longer gradients are scaled down to this length; 0: never")


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = Field("adamw", description="which optimiser")


class Momentum(Optimizer):
    """Stochastic gradient descent with momentum, plain or with LARS' step for every layer."""

    name: Literal["sgd", "lars"] = Field(description="which optimiser")
    momentum: Share = Field(0.9, description="share of the last step that is kept")


AnyOptimizer = Annotated[AdamW | Momentum, Field(discriminator="name"), _unless_given("name", "adamw")]


class Schedule(Part):
    """How the learning rate changes."""

    name: Literal["linear", "cosine", "constant"] = Field("linear", description="how it falls to 0, or that it stays")
    warmup: Share = Field(0.0, description="share of the steps in which the rate rises from 0")


class Batch(Part):
    """How many instances meet in a step."""

    size: Several = Field(64, description="instances in a batch, over all processes")


class TextBatch(Batch):
    """Texts are embedded in chunks of like length."""

    chunk: Whole = Field(0, description="rows embedded at a time, of like length; 0: an eighth of the batch's")
    cache: bool = Field(False, description="gradient cache: keep one chunk's activations at a time")
    mask_duplicates: Annotated[bool, OnlyFor("text with an objective that has negatives", "has_negatives")] = Field(
        True, description="rows that have a text in common are no negatives of each other"
    )


# --- evaluation

_AFTER = (
    "measured of the final model on the test sets: text: the seven STS sets, the seven transfer sets of "
    "evaluation.sts; images: probes"
)


class Evaluation(Part):
    """What is measured on other data while training, and at the end."""

    every: Annotated[Count, _SCORED] = Field(125, description="steps between evaluations")
    best: Annotated[bool, _SCORED] = Field(True, description="keep the weights that did best, not the last ones")
    test: bool = Field(True, description="look at the test set at the end; false while settings are being chosen")


class TextEvaluation(Evaluation):
    """Similarity and transfer of sentences."""

    sts: str | None = Field(None, description="folder in SentEval's layout, or of STS-B alone; null: no score")
    after: list[Literal["sts", "transfer"]] = Field([], description=_AFTER)
    tasks: Annotated[list[str], OnlyFor("text with evaluation.after", "evaluation.after")] = Field(
        [], description="the sets of similarity and transfer that evaluation.after measures (STS13, CR, …); empty: all"
    )
    limit: Annotated[Several | None, _SCORED] = Field(
        None,
        description="pairs or texts of each set that are read, evenly spaced; null: all, for published numbers",
    )

    @field_validator("tasks")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            known_name(name, (*SIMILARITY, *TRANSFER), "set in evaluation.tasks")
        return names

    @model_validator(mode="after")
    def _has_its_sets(self) -> TextEvaluation:
        if self.after and self.sts is None:
            raise ValueError("evaluation.after needs the folder of the sets: evaluation.sts=FOLDER")
        return self


class ImageEvaluation(Evaluation):
    """Neighbours and probes of images."""

    knn: bool = Field(True, description="k-nearest-neighbour accuracy, where the images have labels")
    shots: Whole = Field(
        0, description="neighbours are looked for among so many labelled images of each class, mean of 20 draws; 0: all"
    )
    after: list[Literal["linear", "mlp", "finetune"]] = Field([], description=_AFTER)
    shares: Annotated[list[Fraction], OnlyFor("runs with evaluation.after", "evaluation.after")] = Field(
        [1.0], description="shares of the labels that each of these probes learns from"
    )


# --- what every run has


class Monitoring(Part):
    """What is measured of the run itself."""

    every: Whole = Field(0, description="steps between measurements; 0: as 5 % of the time allows, four at least")
    rows: Annotated[Several | None, OnlyFor("runs with data.held_out", "data.held_out")] = Field(
        None, description="held-out rows measured, in batches of the training's size; null: as 5 % of the time allows"
    )


class Checkpoints(Part):
    """What a run that was interrupted continues from."""

    every: Whole = Field(
        500, description="steps between checkpoints, at least four a run; 0: none, unless the run is interrupted"
    )
    keep: Several = Field(2, description="how many stay on the disk")


class About(Part):
    """What to expect, for `hypersphere recipes`; without effect on the run."""

    summary: str = Field("", description="one line")
    source: str = Field("", description="paper and table")
    hardware: str = Field("", description="what it runs on")
    minutes: float | None = Field(None, description="how long it takes there")
    expect: str = Field("", description="the number to see")
    measured: bool = Field(False, description="measured here; otherwise published and not run here")
