"""Sizes of an objective that only the run knows: how many classes the data has, how wide the embeddings are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import REQUIRED

SIZES = ("num_classes", "dim")


def fill_sizes(given: Any, num_classes: int | None = None, dim: int | None = None) -> dict[str, Any]:
    """An objective's mapping in which every required ``num_classes`` and ``dim`` is there, its base's too.

    Without a number from the run the smallest possible one stands in: for a check before the data is opened.

    >>> fill_sizes({"name": "cloa", "base": "ntxent"}, num_classes=10, dim=512)
    {'name': 'cloa', 'base': 'ntxent', 'num_classes': 10, 'dim': 512}
    """
    filled = {"name": given} if isinstance(given, str) else dict(given)
    if _needs(filled):
        classes = filled.setdefault("num_classes", num_classes or 1)
        filled.setdefault("dim", dim or classes)
    base = filled.get("base")
    if _is_objective(base):
        inner = fill_sizes(base, num_classes, dim)
        filled["base"] = inner if isinstance(base, Mapping) or len(inner) > 1 else base
    return filled


def sized(given: Any) -> Iterator[dict[str, Any]]:
    """The mappings within a filled one that have these sizes."""
    if isinstance(given, Mapping):
        if _needs(given):
            yield dict(given)
        yield from sized(given.get("base"))


def _is_objective(given: Any) -> bool:
    return isinstance(given, str) or (isinstance(given, Mapping) and "name" in given)


def _needs(given: Mapping[str, Any]) -> bool:
    try:
        settings = objective_class(str(given["name"])).settings()
    except ValueError:  # a name that is not known; creating the objective says so
        return False
    return all(size in settings and settings[size].default is REQUIRED for size in SIZES)
