"""Objectives by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from hypersphere.documents import expand
from hypersphere.names import did_you_mean
from hypersphere.objectives import files
from hypersphere.objectives.base import Objective
from hypersphere.objectives.functions import objective_of
from hypersphere.objectives.presets import PRESETS, preset_parameters

_REGISTRY: dict[str, type[Objective]] = {}
_FILES: dict[str, Path] = {}  # by name, the user's file that registered it, if one was named or imported here
Kind = TypeVar("Kind", bound=type[Objective])


def register(name: str) -> Callable[[Kind], Kind]:
    """Class decorator that makes an objective available under ``name``."""

    def keep(cls: Kind) -> Kind:
        known = _REGISTRY.get(name)
        if known and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"an objective named {name!r} is registered already ({known.__module__}); rename yours")
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return keep


def list_objectives(pattern: str | None = None) -> list[str]:
    """Names of all registered objectives, or of those that fit a pattern: with ``*``, ``?`` or ``[…]`` as in a shell,
    otherwise a part of the name. The list is empty if no name fits.

    Names with a slash are listed only for a pattern with one: "released/*" (what the authors' code computes) and
    "printed/*" (misprints, taken literally).

    >>> "infonce" in list_objectives()
    True
    >>> list_objectives("in*nce"), list_objectives("vic"), list_objectives("nothing*")
    (['infonce'], ['mvicreg', 'vicreg'], [])
    >>> list_objectives("printed/*")
    ['printed/mbarlow', 'printed/mmhe', 'printed/mmhs', 'printed/sphere_jepa', 'printed/triplet']
    """
    pattern = "*" if pattern is None else pattern
    whole = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return sorted(name for name in _REGISTRY if fnmatchcase(name, whole) and ("/" not in name or "/" in pattern))


def is_registered(name: str) -> bool:
    """Whether an objective goes by this name.

    >>> is_registered("met"), is_registered("released/met"), is_registered("me")
    (True, True, False)
    """
    return name in _REGISTRY


def objective_class(name: str) -> type[Objective]:
    """The class registered under ``name``, or an error with the nearest right name.

    ``mine.py:name`` is what the file registers under that name, or a class or function it has.
    """
    if not isinstance(name, str):
        raise ValueError(f"an objective is asked for by its name, not by {name!r}")
    if parts := files.split(name):
        return _class_in_file(*parts)
    if name not in _REGISTRY:
        if name in PRESETS:
            example = next(iter(PRESETS[name]))
            raise ValueError(f"{name!r} is a preset: call create_objective({example!r}, preset={name!r})")
        hint = did_you_mean(name, _REGISTRY if "/" in name else list_objectives())
        raise ValueError(f"there is no objective {name!r}{hint} (there are {', '.join(list_objectives())})")
    return _REGISTRY[name]


def import_file(path: Path | str) -> list[str]:
    """Executes a Python file, once in a process, and returns the names of the objectives it registers."""
    before = dict(_REGISTRY)
    try:
        module = files.load(Path(path))
    except files.FileError:
        _REGISTRY.clear()
        _REGISTRY.update(before)  # a file that fails half-way leaves nothing behind
        raise
    path = expand(path).resolve()
    for name, cls in _REGISTRY.items():
        if name not in before or cls.__module__ == module.__name__:
            _FILES[name] = path
    return sorted(name for name, file in _FILES.items() if file == path)


def with_file(name: str) -> str:
    """The name by which another process finds the same objective: with the absolute path of the user's file that
    registered it, if it comes from one."""
    return f"{_FILES[name]}:{name}" if name in _FILES else files.absolute(name)


def _class_in_file(path: Path, name: str) -> type[Objective]:
    registered = import_file(path)
    if name in registered:
        return _REGISTRY[name]
    module = files.load(path)
    member: Any = vars(module).get(name)
    if isinstance(member, type) and issubclass(member, Objective):
        if "name" not in vars(member):  # it would go by the name of the class it derives from
            member.name = name
        return member
    is_loss = issubclass(member, nn.Module) if isinstance(member, type) else not isinstance(member, nn.Module)
    if callable(member) and is_loss:
        return objective_of(member, name)
    if member is not None:
        kind = f"a {type(member).__name__}" if not isinstance(member, type) else "a class of something else"
        raise ValueError(f"in {path} {name!r} is {kind}, not an objective or a function of two views")
    there = [*registered, *(key for key, value in vars(module).items() if _defined(value, module.__name__))]
    has = f"it has {', '.join(dict.fromkeys(there))}" if there else "it defines none"
    raise ValueError(f"there is no objective {name!r} in {path}{did_you_mean(name, there)} ({has})")


def _defined(value: Any, module: str) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module


def create_objective(name: str, *, preset: str | None = None, **params: Any) -> Objective:
    """A new objective with the given settings; the others keep their defaults, or the preset's.

    A preset is named after the peer whose loss it equals; see ``list_presets``. A name such as ``mine.py:triplet``
    executes the file, once, and takes the objective of that name, or a function of two views, from it.

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
