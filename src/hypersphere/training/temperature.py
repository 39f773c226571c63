"""A temperature that changes from epoch to epoch, in place of a number in a recipe's objective."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hypersphere.objectives.base import Objective
from hypersphere.objectives.files import PARTS
from hypersphere.objectives.settings import Number

KEYS = ("schedule", "low", "high", "period")
_POSITIVE = Number(None, above=0)


@dataclass(frozen=True)
class CosineTemperature:
    """τ(t) = low + ½ (high - low) (1 + cos(2π t / period)), t in whole epochs (Kukleva et al. 2023)."""

    low: float
    high: float
    period: float

    def at(self, epoch: int) -> float:
        """The temperature of an epoch, the same on every process and after a resume.

        >>> schedule = CosineTemperature(low=0.1, high=1.0, period=400)
        >>> schedule.at(0), round(schedule.at(100), 6), schedule.at(200), schedule.at(400)
        (1.0, 0.55, 0.1, 1.0)
        """
        return self.low + 0.5 * (self.high - self.low) * (1 + math.cos(2 * math.pi * epoch / self.period))


def parse_schedule(given: Mapping[str, Any], path: Sequence[str] = ()) -> CosineTemperature:
    """The schedule that a recipe gives as the temperature of its objective, or of the part of it at ``path``."""
    key = ".".join(("objective", *path, "temperature"))
    unknown, missing = [name for name in given if name not in KEYS], [name for name in KEYS if name not in given]
    if unknown or missing:
        what = f"has no key {unknown[0]!r}" if unknown else f"needs {key}.{missing[0]}"
        raise ValueError(f"a schedule of {key} {what}: it takes {', '.join(KEYS)}")
    if given["schedule"] != "cosine":
        raise ValueError(f"{key}.schedule must be 'cosine', not {given['schedule']!r}")
    numbers = {name: float(_POSITIVE.clean(given[name], f"{key}.{name}")) for name in KEYS[1:]}
    schedule = CosineTemperature(**numbers)
    if schedule.low > schedule.high:
        raise ValueError(f"{key}.low must be at most {key}.high, not {schedule.low:g} beside {schedule.high:g}")
    return schedule


def schedules(given: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CosineTemperature]]:
    """The schedules in an objective's mapping, each with the path to its objective: of a base's extra
    ("base", "extra")."""
    if isinstance(given, Mapping):
        if isinstance(given.get("temperature"), Mapping):
            yield path, parse_schedule(given["temperature"], path)
        for part in PARTS:
            yield from schedules(given.get(part), (*path, part))


def at_first(given: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """An objective's mapping with the temperatures of the first epoch in place of schedules."""
    filled = dict(given)
    if isinstance(filled.get("temperature"), Mapping):
        filled["temperature"] = parse_schedule(filled["temperature"], path).at(0)
    for part in PARTS:
        if isinstance(filled.get(part), Mapping):
            filled[part] = at_first(filled[part], (*path, part))
    return filled


def refuse_learned(objective: Objective, given: Mapping[str, Any]) -> None:
    """Raises if a temperature has a schedule and is learned as well."""
    for path, _ in schedules(given):
        if (scheduled := _part_at(objective, given, path)).learnable:
            raise ValueError(f"{scheduled.name}'s temperature has a schedule: learnable must be False")


def set_temperature(objective: Objective, given: Mapping[str, Any], epoch: int) -> None:
    """Gives the objective made from a mapping the temperatures of an epoch."""
    for path, schedule in schedules(given):
        _part_at(objective, given, path).temperature = schedule.at(epoch)


def _part_at(objective: Any, given: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The part at a path of the objective that a mapping names, which its guide (objective.guide) may be around."""
    place = objective.base if objective.name == "guided" != given["name"] else objective
    for part in path:
        place = getattr(place, part)
    return place


def record_schedules(settings: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of an objective with its schedules in place of temperatures."""
    for path, schedule in schedules(given):
        place = settings["base"] if settings["name"] == "guided" != given["name"] else settings
        for part in path:
            place = place[part]
        place["temperature"] = {"schedule": "cosine", **asdict(schedule)}
    return settings
