"""Objectives of the user's own on the command line: ``mine.py:name`` and ``--import mine.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hypersphere.cli.answers import fail
from hypersphere.names import nearest_names
from hypersphere.objectives import files, list_objectives
from hypersphere.objectives.registry import import_file, is_registered, objective_class

Imports = Annotated[
    list[Path] | None,
    typer.Option("--import", metavar="FILE", help="Python file that registers objectives of your own; repeatable."),
]


def import_files(paths: Sequence[Path] | None) -> None:
    """Executes the files, so that their objectives are available by name; refuses a file that registers none."""
    for path in paths or ():
        try:
            names = import_file(path)
        except ValueError as error:
            fail(f"{error}.")
        if not names:
            fail(f"{path} registers no objective: put @hs.register('name') above a class, or write {path}:NAME.")


def need_objective(name: str) -> None:
    """Refuses an unknown objective, in one sentence with the nearest name."""
    if files.split(name):
        try:
            objective_class(name)
        except ValueError as error:
            fail(f"{error}.")
    elif not is_registered(name):
        fail(f"there is no objective {name!r}{_hint(name)}")


def matching(pattern: str) -> list[str]:
    """The objectives that match a pattern or have it in their name; refuses a pattern without a match."""
    names = list_objectives(pattern)
    if not names:
        fail(f"there is no objective {pattern!r}{_hint(pattern)}")
    return names


def _hint(name: str) -> str:
    if name.endswith(".py"):
        return f"; one in a file is written {name}:NAME."
    near = nearest_names(name.strip("*?"), list_objectives("*/*") if "/" in name else list_objectives())
    if not near:
        return "; 'hypersphere objectives' lists those there are."
    *others, last = near[:1] if near[0] == name.lower() else near
    return f"; did you mean {', '.join(map(repr, others))}{' or ' * bool(others)}{last!r}?"
