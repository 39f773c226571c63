"""How the command answers: a console for a terminal or a pipe, and one sentence for a mistake."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from hypersphere.messages import INPUT, LONGEST, no_memory, one_line, printable, reason
from hypersphere.objectives.files import blame
from hypersphere.report.files import is_stream

PIPED_WIDTH = 100
FULL = (errno.ENOSPC, errno.EDQUOT)  # no space left, or none left for this user
# The base class of typer's own errors, in whichever module this version keeps it.
_Error: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_typed: list[str] = []  # the words of the command line
_debug: list[bool] = []  # not empty: --debug was among them


class OneSentence(TyperGroup):
    """A group of commands that answers bad input with one sentence and exit code 2.

    A full disk, or any other output that cannot be written, gives one sentence and exit code 1. So does an error that
    no command handles. If a bad file or setting can cause an error of that kind, or it comes from the user's own file,
    the exit code is 2. ``--debug``, anywhere among the words, prints the traceback.
    """

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        _typed[:] = sys.argv[1:] if args is None else args
        _take_debug()
        _print_anything()
        try:
            code = super().main(_typed if _debug else args, standalone_mode=False, **extra)
        except _Error as error:
            typer.echo(_sentence(error), err=True)
            code = getattr(error, "exit_code", 2)
        except Exception as error:
            code = _last_words(error)
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _sentence(error: Any) -> str:
    words = one_line(str(error.format_message()))
    return words if words.endswith((".", "?", ")")) else f"{words}."


def _take_debug() -> None:
    """Removes ``--debug`` from the words of the command line, before the ``--`` that ends options."""
    options = _typed[: _typed.index("--")] if "--" in _typed else _typed
    _debug[:] = [True] * ("--debug" in options)
    _typed[:] = [word for word in options if word != "--debug"] + _typed[len(options) :]


def _print_anything() -> None:
    """Makes output print escapes for characters that a console cannot show and for names that are not UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _last_words(error: Exception) -> int:
    """Prints one sentence for an error that no command handled; returns the exit code."""
    if isinstance(error, OSError) and error.errno in FULL:
        typer.echo(f"The output could not be written ({error.strerror}).", err=True)
        _drop_output()
        return 1
    if isinstance(error, typer.Abort) and isinstance(error.__cause__, EOFError):
        error = error.__cause__
    show_trace(error)
    own = blame(error)
    words = one_line(own or reason(error)).rstrip(".")
    if own or isinstance(error, INPUT) or no_memory(error):
        typer.echo(f"{_begun(words)}.", err=True)
        return 2
    words = one_line(f"Unexpected {type(error).__name__}: {words}", LONGEST - 50)
    typer.echo(f"{words}. The same command with --debug shows where.", err=True)
    return 1


def show_trace(error: BaseException | None = None) -> None:
    """With ``--debug``, prints the traceback of an error; by default, of the one being handled, if any."""
    error = error or sys.exc_info()[1]
    if _debug and error is not None:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)


def _drop_output() -> None:
    """Discards output that is printed but cannot be written: at exit Python would try, and fail, once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(sentence: str) -> NoReturn:
    """Ends the command with one sentence and exit code 2."""
    show_trace()
    typer.echo(one_line(_begun(sentence)), err=True)
    raise typer.Exit(2)


def _begun(sentence: str) -> str:
    """Capitalises a sentence, unless it begins with a name: of a setting, of an existing file, or a typed one.

    >>> _begun("there is no file z.npy."), _begun("z.npy cannot be read."), _begun("max_length is 9.")
    ('There is no file z.npy.', 'z.npy cannot be read.', 'max_length is 9.')
    """
    first = sentence.partition(" ")[0].rstrip(",;:.?")
    named = any(re.match(rf"{re.escape(name)}(?!\w)", sentence) for name in _names())
    if named or not first.isalpha() or os.path.exists(first):
        return sentence
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _names() -> set[str]:
    """Typed words that may be names: whole words, keys and values around an equals sign, and their folders."""
    paths = [Path(value) for word in _typed for value in (word, *word.partition("=")[::2])]
    return {str(each) for path in paths for each in (path, *path.parents)} - {"."}


def need_folder(folder: Path) -> None:
    """Refuses a folder that cannot be written to, before any work. A missing folder is not created."""
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        fail(f"{folder} cannot be written ({error.strerror}).")


def need_file(path: Path) -> None:
    """Refuses a file that cannot be written, before any work. A device or a FIFO is accepted."""
    if path.is_dir():
        fail(f"{path} is a folder, so nothing can be written there.")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        fail(f"{path} cannot be written ({os.strerror(errno.EACCES)}).")
    if not is_stream(path):
        need_folder(Path(os.path.realpath(path)).parent)


class _Console(Console):
    """A console that prints control characters in strings as escapes, so that a user's text cannot control it."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **options)


def print_table(screen: Console, table: Any) -> None:
    """Prints a table; in a pipe, without the spaces that fill its lines."""
    if screen.is_terminal:
        screen.print(table)
        return
    with screen.capture() as kept:
        screen.print(table)
    for line in kept.get().splitlines():
        screen.print(line.rstrip(), soft_wrap=True)


def console(stderr: bool = False) -> Console:
    """A console as wide as the terminal; in a pipe, a little wider than usual and without colours."""
    screen = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = max(screen.width, PIPED_WIDTH)
    return screen
