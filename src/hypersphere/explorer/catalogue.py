"""The objectives as the page shows them: words, sliders, and whether the page has a formula for the map."""

from __future__ import annotations

import inspect
from typing import Any

import hypersphere
from hypersphere.anatomy import closed_form, list_closed_forms
from hypersphere.anatomy.description import describe
from hypersphere.objectives import list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import LOG_SCALE, TEMPERATURES, Choice, Number, Setting
from hypersphere.objectives.triplet import DISTANCES

ANGLES = ("positive", "negative", "cross", "other", "scope")  # arguments of a closed form that are no settings
# Ranges of settings whose declaration has none.
RANGES = {
    "temperature": TEMPERATURES,
    "margin": (0.05, 1.2),
    "ratio": (0.5, 3.0),
    "alpha": (1.0, 4.0),
    "angle": (0.0, 0.5),
    "c": (0.5, 8.0),
    "s": (-2.0, 2.0),
    "eps": (1e-8, 1e-2),
}
CHOICES = {("triplet", "distance"): tuple(DISTANCES)}


def catalogue() -> dict[str, Any]:
    """Every registered objective: what the page shows beside its maps, and what its sliders set.

    >>> met = next(each for each in catalogue()["objectives"] if each["name"] == "met")
    >>> met["closed_form"], met["settings"]
    (True, [{'name': 'margin', 'default': 0.45, 'low': 0.05, 'high': 1.2, 'log': True}])
    """
    return {"objectives": [_entry(name) for name in list_objectives()], "version": hypersphere.__version__}


def _entry(name: str) -> dict[str, Any]:
    described = describe(name)
    words = ("summary", "formula", "source", "paper", "use", "relations", "gradient")
    return {
        "name": name,
        **{word: getattr(described, word) for word in words},
        "settings": settings_of(name),
        "closed_form": name in list_closed_forms(),
    }


def settings_of(name: str) -> list[dict[str, Any]]:
    """The settings with a slider or a choice: those of the closed form, or else those with a known range."""
    declared, closed = objective_class(name).settings(), name in list_closed_forms()
    if closed:
        parameters = inspect.signature(closed_form(name)).parameters.values()
        defaults = {each.name: each.default for each in parameters if each.name not in ANGLES}
    else:
        numbers = {key: each for key, each in declared.items() if isinstance(each, Number)}
        defaults = {key: each.default for key, each in numbers.items() if each.tune or key in RANGES}
    shown = (_shown(name, key, declared.get(key), default) for key, default in defaults.items())
    return [each for each in shown if each is not None]


def _shown(objective: str, name: str, setting: Setting | None, default: Any) -> dict[str, Any] | None:
    if words := CHOICES.get((objective, name)) or (setting.words if isinstance(setting, Choice) else ()):
        stages = getattr(objective_class(objective), "stages", words) if name == "stage" else words
        return {"name": name, "default": default, "choices": list(stages)}
    if not isinstance(default, (int, float)) or isinstance(default, bool):
        return None
    low, high = getattr(setting, "tune", None) or RANGES.get(name) or (0.0, 0.0)
    if not low <= default <= high:  # as barlow's weight, which its closed form has for unit rows
        low, high = sorted((default / 10, default * 10))
    return {"name": name, "default": default, "low": low, "high": high, "log": low > 0 and high >= LOG_SCALE * low}
