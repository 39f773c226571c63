"""The user's own Python files, named as ``mine.py:name``. Each is executed once, and an error in it is one sentence.

A file is executed only when one of its names is asked for. ``map_names``, ``names_in`` and ``fingerprints`` read names
and bytes and execute nothing, so they are safe on a recipe that somebody else wrote.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hypersphere.documents import expand

_LOADED: dict[Path, ModuleType] = {}
_CONTENT: dict[Path, str] = {}  # SHA-256 of what was executed: the file may be edited while its process goes on


class FileError(ValueError):
    """A file that cannot be imported; the message has the file and the line."""


def split(name: str) -> tuple[Path, str] | None:
    """The file and the name in it; None for a name without a file.

    >>> split("mine.py:squared_triplet") == (Path("mine.py"), "squared_triplet")
    True
    >>> split("infonce") is None
    True
    """
    path, colon, inner = name.rpartition(":")
    return (expand(path), inner) if colon and path.endswith(".py") else None


def absolute(name: str, folder: Path | None = None) -> str:
    """``mine.py:name`` with the whole path, from ``folder`` or the working directory; other names as they are."""
    parts = split(name)
    return name if parts is None else f"{((folder or Path()) / parts[0]).resolve()}:{parts[1]}"


PARTS = ("base", "extra")  # settings that hold objectives


def map_names(given: Any, change: Callable[[str], str]) -> Any:
    """An objective as a recipe has it, a name or {"name": …, "base": …}, with its names changed, those of its parts
    too."""
    if isinstance(given, str):
        return change(given)
    if not isinstance(given, Mapping):
        return given
    return {key: map_names(value, change) if key in ("name", *PARTS) else value for key, value in given.items()}


def names_in(given: Any) -> list[str]:
    """The names with a file in an objective as a recipe has it."""
    names: list[str] = []

    def note(name: str) -> str:
        if split(name):
            names.append(name)
        return name

    map_names(given, note)
    return names


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's content, or of the content that was executed if the file was loaded here."""
    return _CONTENT.get(path.resolve()) or hashlib.sha256(_read(path)).hexdigest()


def fingerprints(given: Any) -> dict[str, str]:
    """The files that an objective of a recipe comes from, with the SHA-256 of each."""
    return {str(parts[0]): fingerprint(parts[0]) for name in names_in(given) if (parts := split(name))}


def load(path: Path, module: str = "") -> ModuleType:
    """The module that a file makes. A process executes the file once, as ``import`` would: a file that was imported
    under its own name is not executed again. What it prints goes to standard error. ``module``: the name it has in
    another process, from which this one receives objects."""
    whole = expand(path).resolve()
    if whole.suffix != ".py":
        raise FileError(f"{path} is no Python file: its name does not end in .py")
    if whole not in _LOADED:
        source = _read(path)
        _LOADED[whole] = _imported(whole) or _execute(source, whole, path, module or _module_name(whole))
        _CONTENT[whole] = hashlib.sha256(source).hexdigest()
    return _LOADED[whole]


def loaded() -> list[tuple[Path, str]]:
    """The files that were loaded, in their order, and the names of their modules."""
    return [(path, module.__name__) for path, module in _LOADED.items() if module.__name__ != "__main__"]


def blame(error: BaseException) -> str | None:
    """The line of a loaded file that an error came through, in a sentence; None if it came through none."""
    files = {str(path) for path in _LOADED}
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return _at(Path(lines[-1].filename), lines[-1].lineno, error) if lines else None


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileError(f"{path} is not an ordinary file")
    try:
        return path.read_bytes()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise FileError(
            f"there is no file {path}" if missing else f"{path} cannot be read ({error.strerror})"
        ) from None


def _imported(path: Path) -> ModuleType | None:
    for name in (path.stem, "__main__"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and Path(file).resolve() == path:
            return sys.modules[name]
    return None


def _execute(source: bytes, path: Path, given: Path, name: str) -> ModuleType:
    before = list(sys.path)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for modules beside it; at the end it hides no other
    spec = spec_from_file_location(name, path)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        with redirect_stdout(sys.stderr):
            exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        sys.path[:] = before
        raise FileError(_sentence(path, given, error)) from error
    return module


def _module_name(path: Path) -> str:
    """The file's own name, as ``import`` would use it, with a number if another module has that name."""
    if path.stem.isidentifier() and path.stem not in sys.modules:
        other = find_spec(path.stem)
        if other is None or (other.origin and Path(other.origin).resolve() == path):
            return path.stem
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _sentence(path: Path, given: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return _at(given, error.lineno, error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return _at(given, lines[-1] if lines else None, error)


def _at(path: Path, line: int | None, error: BaseException) -> str:
    words = error.msg if isinstance(error, SyntaxError) else next(iter(str(error).splitlines()), "")
    if isinstance(error, SystemExit):
        words = "the file ends the program; put that under `if __name__ == '__main__':`"
    kind = type(error).__name__
    where = f"{path}, line {line}" if line else f"{path}"
    return f"{where}: {kind}: {words}" if words else f"{where}: {kind}"
