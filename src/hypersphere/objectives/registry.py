"""Objectives by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import nn

from hypersphere.names import did_you_mean
from hypersphere.objectives.base import Objective
from hypersphere.objectives.presets import PRESETS, preset_parameters

_REGISTRY: dict[str, type[Objective]] = {}
Kind = TypeVar("Kind", bound=type[Objective])


def register(name: str) -> Callable[[Kind], Kind]:
    """Class decorator that makes an objective available under ``name``."""

    def keep(cls: Kind) -> Kind:
        known = _REGISTRY.get(name)
        if known and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"an objective named {name!r} is registered already ({known.__qualname__})")
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return keep


def list_objectives() -> list[str]:
    """Names of all registered objectives.

    >>> "infonce" in list_objectives()
    True
    """
    return sorted(_REGISTRY)


def objective_class(name: str) -> type[Objective]:
    """The class registered under ``name``, or an error with the nearest right name."""
    if not isinstance(name, str):
        raise ValueError(f"an objective is asked for by its name, not by {name!r}")
    if name not in _REGISTRY:
        if name in PRESETS:
            example = next(iter(PRESETS[name]))
            raise ValueError(f"{name!r} is a preset: say create_objective({example!r}, preset={name!r})")
        hint = did_you_mean(name, _REGISTRY)
        raise ValueError(f"there is no objective {name!r}{hint} (there are {', '.join(list_objectives())})")
    return _REGISTRY[name]


def create_objective(name: str, *, preset: str | None = None, **params: Any) -> Objective:
    """A new objective with the given settings; the others keep their defaults, or the preset's.

    A preset is named after the peer whose loss it equals; see ``list_presets``.

    >>> create_objective("met", margin=0.4)
    MET(margin=0.4)
    >>> create_objective("infonce", preset="open_clip")
    InfoNCE(temperature=0.07, symmetric=True, learnable=True)
    """
    cls = objective_class(name)
    return cls(**params) if preset is None else cls(**{**preset_parameters(preset, name), **params})


def as_objective(given: Any, what: str, **common: Any) -> nn.Module:
    """An objective from a name, a mapping {"name": …, parameters…}, or the module itself."""
    if isinstance(given, nn.Module):
        return given
    if isinstance(given, str):
        return create_objective(given, **common)
    if isinstance(given, Mapping) and "name" in given:
        return create_objective(**{**common, **given})
    raise ValueError(f'{what} must be a name, a mapping {{"name": …, parameters…}} or a module, not {given!r}')
