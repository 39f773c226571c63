"""Where each key of a recipe has an effect. A key that is not listed here has one in every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hypersphere.objectives import CLOA, Objective, within

if TYPE_CHECKING:
    from hypersphere.training.recipe import Recipe

TASKS = ("text", "image", "three-lines")


class NoEffectError(ValueError):
    """A key that a recipe has no use for."""

    def __init__(self, key: str, use: str) -> None:
        super().__init__(f"{key} is for {use}; here it would have no effect")
        self.key = key


class Use(NamedTuple):
    """Where a key has an effect: in words, in which tasks at all, and whether in a given recipe."""

    words: str
    tasks: tuple[str, ...]
    holds: Callable[[Recipe], bool]


def reads_labels(objective: Objective) -> bool:
    """Whether the objective, or one that it is wrapped around, reads labels."""
    return any(getattr(each, "labelled", False) or isinstance(each, CLOA) for each in within(objective))


def _scored(recipe: Recipe) -> bool:
    """Whether there is a score while the run goes on."""
    if recipe.task == "text":
        return recipe.evaluation.sts is not None
    return recipe.task in ("image", "three-lines") and recipe.data.held_out > 0 and recipe.evaluation.knn


def _for_images(words: str, holds: Callable[[Recipe], bool] = lambda recipe: True) -> Use:
    return Use(words, ("image",), lambda recipe: recipe.task == "image" and holds(recipe))


EVERYWHERE = Use("every run", TASKS, lambda recipe: True)
_TEXT = Use("text", ("text",), lambda recipe: recipe.task == "text")
_IMAGE = _for_images("images")
_RESNET = _for_images("ResNets", lambda recipe: recipe.encoder.name.startswith("resnet"))
_CNN = _for_images("small-cnn", lambda recipe: recipe.encoder.name == "small-cnn")
_SCORED = Use(
    "runs with a score (text: evaluation.sts; images: data.held_out and evaluation.knn)",
    TASKS,
    _scored,
)
EFFECT = {
    **dict.fromkeys(("data.views", "data.columns", "encoder.pooling", "encoder.max_length", "encoder.dropout"), _TEXT),
    **dict.fromkeys(("head.keep", "batch.chunk", "batch.cache", "evaluation.sts"), _TEXT),
    **dict.fromkeys(("augmentation.name", "augmentation.size", "evaluation.knn", "evaluation.shots"), _IMAGE),
    **dict.fromkeys(("evaluation.every", "evaluation.best"), _SCORED),
    "data.size": _for_images("images of many sizes", lambda recipe: recipe.data.source != "digits"),
    **dict.fromkeys(("encoder.stem", "encoder.weights"), _RESNET),
    "encoder.width": _CNN,
    "encoder.norm": Use(
        "small-cnn and mlp", ("image", "three-lines"), lambda recipe: recipe.encoder.name in ("small-cnn", "mlp")
    ),
    "evaluation.after": Use("text and images", ("text", "image"), lambda recipe: recipe.task != "three-lines"),
    "evaluation.tasks": Use(
        "text with evaluation.after", ("text",),
        lambda recipe: recipe.task == "text" and bool(recipe.evaluation.after),
    ),
    "evaluation.shares": _for_images("runs with evaluation.after", lambda recipe: bool(recipe.evaluation.after)),
    "data.labels": Use(
        "images and three-lines, with an objective that reads labels",
        ("image", "three-lines"),
        lambda recipe: recipe.task != "text" and reads_labels(recipe.create_objective()),
    ),
    "data.noise": Use("three-lines", ("three-lines",), lambda recipe: recipe.task == "three-lines"),
    "encoder.hidden": Use("mlp", ("image", "three-lines"), lambda recipe: recipe.encoder.name == "mlp"),
    "head.hidden": Use("an mlp head", TASKS, lambda recipe: recipe.head.kind == "mlp"),
    "augmentation.strength": _for_images("simclr views", lambda recipe: recipe.augmentation.name == "simclr"),
    **{
        f"about.{name}": Use("the list of recipes", (), lambda recipe: True)
        for name in ("summary", "source", "hardware", "minutes", "expect", "measured")
    },
    "monitor.rows": Use("runs with data.held_out", TASKS, lambda recipe: recipe.data.held_out > 0),
    "optimizer.momentum": Use("sgd and lars", TASKS, lambda recipe: recipe.optimizer.name != "adamw"),
}  # fmt: skip


def use_of(key: str) -> Use:
    """Where ``section.key`` has an effect."""
    return EFFECT.get(key, EVERYWHERE)


def effective(recipe: Recipe) -> dict[str, Any]:
    """The keys of a recipe that have an effect in its run, with their values, section by section."""
    tree = {
        section: {key: value for key, value in part.items() if use_of(f"{section}.{key}").holds(recipe)}
        if isinstance(part, dict) and section != "objective" else part
        for section, part in recipe.model_dump().items()
    }  # fmt: skip
    idle = "epochs" if recipe.epochs is None else "steps"
    return {section: part for section, part in tree.items() if part != {} and section != idle}
