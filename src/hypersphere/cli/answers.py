"""How the command answers: a console for a terminal or a pipe, and one sentence for a mistake."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

PIPED_WIDTH = 100
FULL = (errno.ENOSPC, errno.EDQUOT)  # no space left, or none left to this user
# The root of typer's own errors, wherever this version of it keeps them.
_Error: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_typed: list[str] = []  # the words of the command line


class OneSentence(TyperGroup):
    """A group of commands that answers bad input with one sentence and exit code 2.

    A full disk, or whatever else takes no more output, gets one sentence and exit code 1.
    """

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        _typed[:] = sys.argv[1:] if args is None else args
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except _Error as error:
            typer.echo(_sentence(error), err=True)
            code = getattr(error, "exit_code", 2)
        except OSError as error:
            if error.errno not in FULL:
                raise
            typer.echo(f"The output could not be written ({error.strerror}).", err=True)
            _drop_output()
            code = 1
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _sentence(error: Any) -> str:
    words = " ".join(str(error.format_message()).split())
    return words if words.endswith((".", "?", ")")) else f"{words}."


def _drop_output() -> None:
    """What was printed and not yet written goes nowhere: leaving would try, and fail, once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse(sentence: str) -> NoReturn:
    """Ends the command with one sentence and exit code 2."""
    typer.echo(_begun(sentence), err=True)
    raise typer.Exit(2)


def _begun(sentence: str) -> str:
    """With a capital letter, unless it begins with a name: of a setting, of a file there is, or as it was typed.

    >>> _begun("there is no file z.npy."), _begun("z.npy cannot be read."), _begun("max_length is 9.")
    ('There is no file z.npy.', 'z.npy cannot be read.', 'max_length is 9.')
    """
    first = sentence.partition(" ")[0].rstrip(",;:.?")
    named = any(re.match(rf"{re.escape(name)}(?!\w)", sentence) for name in _names())
    if named or not first.isalpha() or os.path.exists(first):
        return sentence
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _names() -> set[str]:
    """What was typed and may be a name: words, values after an equals sign, and the folders of both."""
    paths = [Path(value) for word in _typed for value in (word, word.partition("=")[2])]
    return {str(each) for path in paths for each in (path, *path.parents)} - {"."}


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
