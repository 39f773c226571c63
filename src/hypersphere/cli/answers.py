"""How the command answers: a console for a terminal or a pipe, and one sentence for a mistake."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

PIPED_WIDTH = 100
# The root of typer's own errors, wherever this version of it keeps them.
_Error: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class OneSentence(TyperGroup):
    """A group of commands that answers bad input with one sentence and exit code 2."""

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except _Error as error:
            typer.echo(_sentence(error), err=True)
            code = getattr(error, "exit_code", 2)
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _sentence(error: Any) -> str:
    words = " ".join(str(error.format_message()).split())
    return words if words.endswith((".", "?", ")")) else f"{words}."


def refuse(sentence: str) -> NoReturn:
    """Ends the command with one sentence and exit code 2."""
    typer.echo(_begun(sentence), err=True)
    raise typer.Exit(2)


def _begun(sentence: str) -> str:
    """With a capital letter, unless the first word is a name, as of a file or a setting.

    >>> _begun("there is no file z.npy."), _begun("z.npy cannot be read."), _begun("max_length is 9.")
    ('There is no file z.npy.', 'z.npy cannot be read.', 'max_length is 9.')
    """
    first = sentence.partition(" ")[0].rstrip(",;:.?")
    return f"{sentence[:1].upper()}{sentence[1:]}" if first.isalpha() else sentence


def need_folder(folder: Path) -> None:
    """Refuses a folder in which nothing can be written, before any work; one that is not there yet is not made."""
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        refuse(f"{folder} cannot be written ({error.strerror}).")


def put(screen: Console, table: Any) -> None:
    """Prints a table; into a pipe without the spaces that fill its lines."""
    if screen.is_terminal:
        screen.print(table)
        return
    with screen.capture() as kept:
        screen.print(table)
    for line in kept.get().splitlines():
        screen.print(line.rstrip(), soft_wrap=True)


def console(stderr: bool = False) -> Console:
    """As wide as the terminal; into a pipe, a little wider than usual, and without colours."""
    found = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = max(found.width, PIPED_WIDTH)
    return found
