"""Text of others in messages: one line, short, and nothing that a terminal obeys."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.messages import first_line, no_memory, one_line, printable, quoted, reason


def test_only_what_controls_a_terminal_is_escaped() -> None:
    for plain in ("τ = 0.5, 一个", "two\nlines\tand a\N{NO-BREAK SPACE}space"):
        assert printable(plain) == plain
    assert printable("\x1b[31mred\r\x9b\u202e\ud800") == r"\x1b[31mred\r\x9b\u202e\ud800"


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    assert one_line("a\n b\t\tc") == "a b c"
    assert one_line("x" * 30, longest=30) == "x" * 30
    short = one_line("begin" + "x" * 10**6 + "end", longest=30)
    assert len(short) == 30 and short.startswith("begin") and short.endswith("end") and "x … x" in short


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, "two", None], "[1, 'two', None]"),
        ({"a": 1}, "{'a': 1}"),
        ({"a": [1]}, "a dict of 1"),
        (list(range(81)), "a list of 81"),
        ("a\x1b", r"'a\x1b'"),
        ("a" * 81, f"'{'a' * 27}"),
        (10**5000, "a int of thousands of digits"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_value_is_shown_short_or_by_its_size(value: Any, shown: str) -> None:
    assert quoted(value).startswith(shown) and len(quoted(value)) <= 81


def errors() -> list[tuple[BaseException, str]]:
    return [
        (ValueError("it is\n wrong"), "it is wrong"),
        (KeyError("name"), "KeyError: 'name'"),  # its message alone would be unclear
        (ZeroDivisionError(), "ZeroDivisionError"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "z.npy"), "z.npy: No such file or directory"),
        (RecursionError("maximum recursion depth exceeded"), "it is nested too deeply"),
        (MemoryError("Unable to allocate 7 EiB"), "there is not enough memory for it"),
        (OSError("cannot identify image file"), "cannot identify image file"),
    ]


@pytest.mark.parametrize(("error", "sentence"), errors(), ids=lambda each: type(each).__name__)
def test_the_reason_of_an_error_is_a_sentence(error: BaseException, sentence: str) -> None:
    assert reason(error) == sentence


def test_advice_below_a_reason_can_be_left_out() -> None:
    error = RuntimeError("could not load it\nTry another version.")
    assert first_line(error) == "could not load it"
    assert reason(error) == "could not load it Try another version."


def test_what_memory_cannot_hold_is_known_by_each_librarys_own_words() -> None:
    for allocate in (lambda: torch.empty(2**60), lambda: torch.empty(2**40, 2**40), lambda: np.empty(2**58)):
        with pytest.raises((RuntimeError, MemoryError)) as error:
            allocate()
        assert no_memory(error.value), error.value
    assert not no_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not no_memory(ValueError("out of memory"))
