"""Text of a user's files in messages: on one line, short, and without characters that control a terminal."""

from __future__ import annotations

from typing import Any

LONGEST = 300  # characters of a message
QUOTED = 80  # characters of a value inside a message
# Kinds of error that a bad file, name or setting causes where no check caught it.
INPUT = (ValueError, OSError, EOFError, ImportError, MemoryError, RecursionError, OverflowError)
_TELLING = (ValueError, TypeError, OSError, ImportError, RuntimeError)  # kinds whose own words are a sentence

_FULL = ("not enough memory", "can't allocate memory", "out of memory", "Storage size calculation overflowed",
         "Invalid shape dimension", "numel: integer multiplication overflow")  # fmt: skip


def printable(text: str) -> str:
    r"""The text with its control characters and lone surrogates written as escapes; line ends, tabs and no-break spaces
    stay.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t\N{NO-BREAK SPACE}" else each.encode("unicode_escape").decode()
        for each in text
    )


def one_line(text: str, longest: int = LONGEST) -> str:
    """Printable, without line ends, and with the middle left out if it is longer than ``longest`` characters: the
    beginning of a message names the file, its end the way out.

    >>> one_line("much too " * 100, longest=24)
    'much too much … much too'
    """
    if len(text) > 4 * longest:  # before its words are counted: it may be of any size
        text = f"{text[: 2 * longest]} … {text[-2 * longest :]}"
    words = printable(" ".join(text.split()))
    if len(words) <= longest:
        return words
    tail = longest // 3
    return f"{words[: longest - tail - 3].rstrip()} … {words[-tail:].lstrip()}"


def quoted(value: Any, longest: int = QUOTED) -> str:
    """A value of any size as a message shows it.

    >>> quoted("met"), quoted(["x" * 10] * 10**6, 20)
    ("'met'", 'a list of 1000000')
    """
    if isinstance(value, (list, tuple, dict, set)):
        if len(value) > longest or any(isinstance(each, (list, tuple, dict)) for each in _parts(value)):
            return f"a {type(value).__name__} of {len(value)}"
        shown = ", ".join(quoted(each, longest) for each in _parts(value))
        return repr(value) if len(shown) <= longest else f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, (str, bytes)) and len(value) > longest:
        value = value[:longest]
        return one_line(f"{value!r}", longest) + "…"
    try:
        return one_line(repr(value), longest)
    except ValueError:  # a whole number of more digits than Python writes
        return f"a {type(value).__name__} of thousands of digits"


def _parts(value: Any) -> list[Any]:
    return [each for pair in value.items() for each in pair] if isinstance(value, dict) else list(value)


def no_memory(error: BaseException) -> bool:
    """Whether an error reports a size that exceeds memory, in the wording of Python, numpy or torch."""
    told = str(error)[:1000]
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(mark in told for mark in _FULL))


def first_line(error: BaseException) -> str:
    """The reason that a library gives, without the lines of advice below it."""
    return reason(error, lines=1)


def reason(error: BaseException, lines: int | None = None) -> str:
    """The message of an error in one line, with its kind where the message alone is unclear."""
    words = one_line(" ".join(str(error).strip().splitlines()[:lines]))
    kind = type(error).__name__
    if no_memory(error):
        return "there is not enough memory for it"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return one_line(f"{error.filename}: {error.strerror}")
    return words if words and isinstance(error, _TELLING) else f"{kind}: {words}" if words else kind
