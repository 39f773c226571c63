"""The objective of a recipe: created from its mapping, with the sizes that the run determines filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from hypersphere.objectives import CLOA, create_objective
from hypersphere.objectives.base import Objective, within
from hypersphere.objectives.files import PARTS
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import REQUIRED
from hypersphere.training.temperature import at_first, refuse_learned

SIZES = ("num_classes", "dim")
GUIDE = {"guide": "guide", "guide_margin": "margin", "guide_strategy": "strategy"}  # keys of a recipe
SELF = "self"  # the guide is the encoder under training


def create(given: Mapping[str, Any], *, gather: bool = False) -> Objective:
    """Creates the objective, which checks its own settings; ``gather``: negatives of all processes.

    The smallest possible sizes replace those that the run determines (see ``fit``), and the temperatures of the first
    epoch replace schedules."""
    if "name" not in given:
        raise ValueError("objective.name is missing: hypersphere objectives lists the names")
    if "gather" in given:
        raise ValueError("objective.gather is always on: the negatives of all processes are shared")
    filled = fill_sizes(at_first(given))
    rule = {key: filled.pop(name) for name, key in GUIDE.items() if name in filled}
    objective = create_objective(str(filled.pop("name")), **filled, gather=gather)
    if rule:
        objective = _guided(objective, gather, **rule)
    refuse_learned(objective, given)
    if objective.reduction == "none":
        raise ValueError("objective.reduction must be mean or sum: a run minimises one number")
    return objective


def _guided(base: Objective, gather: bool, guide: Any = None, **settings: Any) -> Objective:
    """The objective without the negatives that its guide holds for positives; as it is if it reads the guide itself."""
    key = f"objective.guide_{next(iter(settings), '')}"
    if guide is None:
        raise ValueError(f"{key} needs objective.guide: self, or a sentence model")
    if not isinstance(guide, str) or not guide:
        raise ValueError(f"objective.guide is {guide!r}: it should be self, or the folder or name of a sentence model")
    needs_rows = "guide" in base.needs
    if not needs_rows and base.name != "guided":
        source = "self" if guide == SELF else "given"
        return create_objective("guided", base=base, source=source, gather=gather, **settings)
    if settings:
        raise ValueError(f"{base.name} has settings of its own for its guide: leave out {key}")
    if needs_rows and guide == SELF:
        rest = ", or objective.source=self" if base.name == "guided" else ""
        raise ValueError(f"{base.name} reads the rows of a guide: objective.guide must be a sentence model{rest}")
    if not needs_rows and guide != SELF:
        raise ValueError(f"{base.name} has objective.source=self, so its guide is self, not {guide!r}")
    return base


def fit(given: Mapping[str, Any], num_classes: int, dim: int) -> dict[str, Any]:
    """Fills in the number of classes in the data and the width of the objective's input, where the objective needs them
    and the mapping lacks them. Sizes that the mapping gives must fit."""
    filled = fill_sizes(given, num_classes, dim)
    for each in sized(filled):
        if each["dim"] != dim:
            raise ValueError(
                f"{each['name']}'s dim is {each['dim']}, but what the objective sees has {dim} dimensions: leave "
                "it out, and the run fills it in"
            )
        if each["num_classes"] < num_classes:
            raise ValueError(
                f"{each['name']}'s num_classes is {each['num_classes']}, but the data has {num_classes} classes: "
                "leave it out, and the run fills it in"
            )
    return filled


def fill_sizes(given: Any, num_classes: int | None = None, dim: int | None = None) -> dict[str, Any]:
    """An objective's mapping with every required ``num_classes`` and ``dim`` filled in, those of its parts included.

    Without a number from the run the smallest possible one is used, for a check before the data is opened.

    >>> fill_sizes({"name": "cloa", "base": "ntxent"}, num_classes=10, dim=512)
    {'name': 'cloa', 'base': 'ntxent', 'num_classes': 10, 'dim': 512}
    """
    filled = {"name": given} if isinstance(given, str) else dict(given)
    if _needs(filled):
        classes = filled.setdefault("num_classes", num_classes or 1)
        filled.setdefault("dim", dim or classes)
    for part in PARTS:
        if _is_objective(given_part := filled.get(part)):
            inner = fill_sizes(given_part, num_classes, dim)
            filled[part] = inner if isinstance(given_part, Mapping) or len(inner) > 1 else given_part
    return filled


def sized(given: Any) -> Iterator[dict[str, Any]]:
    """The mappings inside a filled mapping that have these sizes."""
    if isinstance(given, Mapping):
        if _needs(given):
            yield dict(given)
        for part in PARTS:
            yield from sized(given.get(part))


def reads_labels(objective: Objective) -> bool:
    """Whether the objective, or an objective that it wraps, reads labels."""
    return any(getattr(each, "labelled", False) or isinstance(each, CLOA) for each in within(objective))


def refuse_needs(objective: Objective, given: Mapping[str, Any], task: str) -> None:
    """Raises if the objective needs something of its rows that a run does not have."""
    if "scores" in objective.needs:
        raise ValueError(f"{objective.name} needs the score of each pair, which the data of a run does not have")
    model = given.get("guide")
    if "guide" in objective.needs and task != "text" and objective.name != "guided":
        raise ValueError(f"{objective.name} needs a guide of each instance, which a run has on text alone")
    if "guide" in objective.needs and model is None:
        raise ValueError(f"{objective.name} needs a guide: objective.guide names it in a recipe")
    if "guide" in objective.needs and task != "text":
        raise ValueError(f"objective.guide is {model!r}, and a sentence model guides text alone; here it can be self")


def all_settings(objective: Objective) -> dict[str, Any]:
    """Every setting of an objective and of the objectives inside it, whether the recipe gives it or not."""
    settings: dict[str, Any] = {"name": objective.name}
    for name in objective.settings():
        value = getattr(objective, name)
        if isinstance(value, Objective):
            settings[name] = all_settings(value)
        else:
            learned = isinstance(value, torch.Tensor)  # in float32
            settings[name] = float(f"{value.item():.6g}") if learned else value
    return settings


def _is_objective(given: Any) -> bool:
    return isinstance(given, str) or (isinstance(given, Mapping) and "name" in given)


def _needs(given: Mapping[str, Any]) -> bool:
    try:
        settings = objective_class(str(given["name"])).settings()
    except ValueError:  # an unknown name; creating the objective raises the error
        return False
    return all(size in settings and settings[size].default is REQUIRED for size in SIZES)
