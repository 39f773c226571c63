"""A recipe: all settings of a training run, as one validated model for each task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator
from typing_extensions import Self

from hypersphere.objectives.base import Objective
from hypersphere.objectives.files import map_names
from hypersphere.objectives.registry import with_file
from hypersphere.training import objective as objectives
from hypersphere.training.sections import (
    MLP,
    About,
    AdamW,
    AnyOptimizer,
    Batch,
    Checkpoints,
    Data,
    Encoder,
    Evaluation,
    Head,
    ImageAugmentation,
    ImageData,
    ImageEncoder,
    ImageEvaluation,
    ImageHead,
    Monitoring,
    NoHead,
    OnlyFor,
    Part,
    Passes,
    Schedule,
    Seed,
    SentenceHead,
    SimCLRViews,
    TextBatch,
    TextData,
    TextEncoder,
    TextEvaluation,
    TextHead,
    ThreeLinesData,
    Whole,
)
from hypersphere.training.temperature import record_schedules

_TASK = "what is embedded: sentences, images, or the points of CLOA's synthetic world"


class NoEffectError(ValueError):
    """A key without effect in its recipe."""

    def __init__(self, key: str, words: str) -> None:
        super().__init__(f"{key} is for {words}; here it would have no effect")
        self.key = key


class BaseRecipe(Part, ABC):
    """What the recipes of all tasks share; a task narrows the sections in which it differs."""

    task: str = Field(description=_TASK)
    data: Data
    encoder: Encoder
    head: Head
    objective: dict[str, Any] = Field(
        {"name": "infonce"}, description="a name of `hypersphere objectives`, or mine.py:NAME"
    )
    optimizer: AnyOptimizer = AdamW()
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

    @property
    @abstractmethod
    def scored(self) -> bool:
        """Whether the run is scored on other data during training."""

    @property
    def reads_labels(self) -> bool:
        """Whether the objective reads labels."""
        return objectives.reads_labels(self.create_objective())

    @field_validator("objective")
    @classmethod
    def _locate(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Makes the path of a user's own objective absolute, so that it is valid in every working directory."""
        located: dict[str, Any] = map_names(value, with_file)
        return located

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("a recipe has epochs or steps, not both")
        for section, key, only in self.idle():
            part = getattr(self, section)
            if getattr(part, key) != type(part).model_fields[key].get_default():
                raise NoEffectError(f"{section}.{key}", only.words)
        objectives.refuse_needs(self.create_objective(), self.objective, self.task)
        return self

    def idle(self) -> Iterator[tuple[str, str, OnlyFor]]:
        """Section and key of every setting that another value leaves without effect, and where it has an effect."""
        for section, part in self:
            for key, field in type(part).model_fields.items() if isinstance(part, Part) else ():
                for only in field.metadata:
                    if isinstance(only, OnlyFor) and not attrgetter(only.needs)(self):
                        yield section, key, only

    def effective(self) -> dict[str, Any]:
        """The keys that have an effect in the run, with their values, section by section."""
        tree = {section: value for section, value in self.model_dump().items() if value != {}}
        for section, key, _ in self.idle():
            del tree[section][key]
        del tree["epochs" if self.epochs is None else "steps"]
        return in_order(tree)

    def create_objective(self, *, gather: bool = False) -> Objective:
        """The objective; ``gather``: with the negatives of all processes."""
        return objectives.create(self.objective, gather=gather)

    def fitted(self, num_classes: int, dim: int) -> Self:
        """The recipe with the sizes that its objective takes from the data and from its input."""
        return self.model_copy(update={"objective": objectives.fit(self.objective, num_classes, dim)})

    def resolved(self) -> dict[str, Any]:
        """The recipe with every setting of its objective, defaults included."""
        settings = record_schedules(objectives.all_settings(self.create_objective()), self.objective)
        guide = {"guide": self.objective["guide"]} if "guide" in self.objective else {}
        return {**self.model_dump(), "objective": settings | guide}


class TextRecipe(BaseRecipe):
    """A run on sentences."""

    task: Literal["text"] = Field(description=_TASK)
    data: TextData
    encoder: TextEncoder
    head: TextHead = NoHead()
    batch: TextBatch = TextBatch()
    evaluation: TextEvaluation = TextEvaluation()

    @property
    def scored(self) -> bool:
        return self.evaluation.sts is not None

    @property
    def has_negatives(self) -> bool:
        """Whether the objective has negatives, which equal texts are not."""
        return "ids" in self.create_objective().takes

    @property
    def guide(self) -> str | None:
        """The sentence model that guides the objective; None if there is none."""
        guide: str | None = self.objective.get("guide")
        return None if guide == objectives.SELF else guide

    @property
    def keeps_head(self) -> bool:
        """Whether the head stays in the saved model."""
        return isinstance(self.head, SentenceHead) and self.head.keep

    @model_validator(mode="after")
    def _has_no_labels(self) -> Self:
        if self.reads_labels:
            raise ValueError(f"{self.create_objective().name} reads labels, and text has none")
        return self


class ImageRecipe(BaseRecipe):
    """A run on images."""

    task: Literal["image"] = Field(description=_TASK)
    data: ImageData
    encoder: ImageEncoder
    augmentation: ImageAugmentation = SimCLRViews()
    head: ImageHead = NoHead()
    evaluation: ImageEvaluation = ImageEvaluation()

    @property
    def scored(self) -> bool:
        return self.data.held_out > 0 and self.evaluation.knn

    @property
    def num_views(self) -> int:
        """Views of an image, those of small crops included."""
        return self.augmentation.views + getattr(self.augmentation, "local_views", 0)

    @model_validator(mode="after")
    def _takes_its_views(self) -> Self:
        objective = self.create_objective()
        if self.num_views > 2 and "views" not in objective.takes:
            raise ValueError(
                f"{objective.name} compares two views, and the augmentation makes {self.num_views}: "
                f"objective=pairwise objective.base={objective.name} compares all pairs of them"
            )
        return self


class ThreeLinesRecipe(BaseRecipe):
    """A run on the points of CLOA's synthetic world."""

    task: Literal["three-lines"] = Field(description=_TASK)
    data: ThreeLinesData
    encoder: MLP
    head: ImageHead = NoHead()

    @property
    def scored(self) -> bool:
        return self.data.held_out > 0


Recipe = TextRecipe | ImageRecipe | ThreeLinesRecipe
TASKS: dict[str, type[Recipe]] = {"text": TextRecipe, "image": ImageRecipe, "three-lines": ThreeLinesRecipe}
_RECIPES: TypeAdapter[Recipe] = TypeAdapter(Annotated[Recipe, Field(discriminator="task")])


def validate(tree: dict[str, Any]) -> Recipe:
    """The recipe from nested dictionaries; raises pydantic's ValidationError."""
    return _RECIPES.validate_python(tree)


def in_order(sections: dict[str, Any]) -> dict[str, Any]:
    """The sections in reading order: the augmentation follows the encoder that receives its views."""
    if "augmentation" not in sections:
        return sections
    first = ("task", "data", "encoder", "augmentation")
    return {name: sections[name] for name in (*first, *(each for each in sections if each not in first))}
