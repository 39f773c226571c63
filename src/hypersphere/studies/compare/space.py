"""The search space of an objective: ranges or values by recipe key, and the grids of a search in stages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypersphere.objectives.base import Objective
from hypersphere.objectives.settings import Number, Range
from hypersphere.studies.compare.effects import has_effect
from hypersphere.studies.compare.study import Study, label_of
from hypersphere.training.recipe import Recipe

LEARNING_RATE = "optimizer.lr"
DECADE = 10.0  # the learning rate is searched within a factor of ten of the recipe's


@dataclass(frozen=True)
class Choice:
    """A finite set of values, such as a paper's grid."""

    values: tuple[float, ...]

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def at(self, share: float) -> float:
        """The value at a position between 0 and 1.

        >>> Choice((64, 128, 256)).at(0.5)
        128
        """
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def share(self, value: float) -> float:
        """The position of a value among the values, 0 to 1; a half if it is the only one."""
        return sorted(self.values).index(value) / (len(self.values) - 1) if len(self.values) > 1 else 0.5

    def __str__(self) -> str:
        return ", ".join(f"{value:g}" for value in self.values)


def _span(given: list[float]) -> Range | Choice:
    return Range(given[0], given[1]) if len(given) == 2 else Choice(tuple(given))


def space_of(study: Study, objective: Mapping[str, Any]) -> dict[str, Range | Choice]:
    """The search space of an objective, by recipe key: the learning rate first, then its own settings that have an
    effect. For a search in stages, the values come from the last stage that has the key."""
    if not study.tunes:
        return {}
    if study.stages:
        return {key: Choice(tuple(values)) for stage in stages_of(study, objective) for key, values in stage.items()}
    label, recipe = label_of(objective), study.base(objective)
    if study.tune is None:
        rate = recipe.optimizer.lr
        space: dict[str, Range | Choice] = {LEARNING_RATE: Range(rate / DECADE, rate * DECADE)}
    else:
        space = {key: _span(values) for key, values in study.tune.items()}
    made, given = _tuned(recipe), study.ranges.get(label, {})
    own: dict[str, Range | Choice] = {
        name: span
        for name, span in own_ranges(made, fixed=objective).items()
        if name in given or has_effect(made, name, (span.low, span.high))
    }
    own |= {name: _span(values) for name, values in given.items()}
    space |= {f"objective.{name}": span for name, span in own.items()}
    for key, span in space.items():
        default = _number(recipe, key, label)
        if not span.low <= default <= span.high:
            raise ValueError(
                f"the range of {key} for {label}, {span.low:g} to {span.high:g}, excludes its default {default:g}"
            )
    return space


def stages_of(study: Study, objective: Mapping[str, Any]) -> list[dict[str, list[float]]]:
    """The grids that are searched for an objective. Settings that the objective lacks, that were given, or that have
    no effect are left out."""
    recipe = study.base(objective)
    made = _tuned(recipe)

    def takes(key: str, values: list[float]) -> bool:
        section, _, name = key.partition(".")
        if section != "objective":
            _number(recipe, key, label_of(objective))
            return True
        if name.partition(".")[0] not in made.settings() or _is_given(objective, name):
            return False
        _number(recipe, key, label_of(objective))
        return len(values) == 1 or has_effect(made, name, values)

    return [{key: values for key, values in stage.items() if takes(key, values)} for stage in study.stages]


def own_ranges(objective: Objective, fixed: Mapping[str, Any] | None = None, prefix: str = "") -> dict[str, Range]:
    """The ranges an objective declares for its settings, including those of an inner objective; ``fixed`` settings are
    not tuned."""
    given = fixed or {}
    ranges: dict[str, Range] = {}
    for name, setting in objective.settings().items():
        value = getattr(objective, name)
        if isinstance(value, Objective):
            inner = given.get(name)
            ranges |= own_ranges(value, inner if isinstance(inner, Mapping) else None, f"{prefix}{name}.")
        elif isinstance(setting, Number) and setting.tune is not None and name not in given and not objective.learnable:
            ranges[prefix + name] = setting.tune
    return ranges


def _is_given(objective: Mapping[str, Any], name: str) -> bool:
    """Whether the objective's mapping contains a setting, perhaps of an inner objective."""
    place: Any = objective
    for part in name.split("."):
        if not isinstance(place, Mapping) or part not in place:
            return False
        place = place[part]
    return True


def _tuned(recipe: Recipe) -> Any:
    """The objective whose settings are tuned: the one that ``objective.guide`` is around, or the objective itself."""
    made: Any = recipe.create_objective()
    return made.base if made.name == "guided" != recipe.objective["name"] else made


def _number(recipe: Recipe, key: str, label: str) -> float:
    """The default of a tuned key."""
    default = read_key(recipe, key)
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        raise ValueError(f"{key} of {label} is {default!r}, not a number: it cannot be tuned in a range")
    return default


def read_key(recipe: Recipe, key: str) -> Any:
    """The value of a recipe key; settings of the objective come from the objective itself."""
    section, _, rest = key.partition(".")
    value: Any = _tuned(recipe) if section == "objective" else getattr(recipe, section, None)
    for name in rest.split(".") if rest else ():
        value = getattr(value, name, None)
    if value is None:
        raise ValueError(f"{key} is not a key of this recipe, or has no value there")
    return value


def with_settings(objective: Mapping[str, Any], settings: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The objective's mapping with the tuned settings, including those of inner objectives."""
    tree = json.loads(json.dumps(dict(objective)))
    for key, value in settings.items():
        section, _, path = key.partition(".")
        if section != "objective":
            continue
        place, made = tree, _tuned(recipe)
        *outer, last = path.split(".")
        for name in outer:
            made = getattr(made, name)
            inner = place.get(name)
            place[name] = inner if isinstance(inner, dict) else {"name": inner or made.name}
            place = place[name]
        place[last] = value
    return dict(tree)
