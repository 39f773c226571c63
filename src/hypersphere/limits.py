"""Limits on the sizes that a file or a setting asks for, checked before anything is allocated or unpacked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

MOST_CHARACTERS = 1_000_000  # of a line of text
GIGABYTE = 10**9


def memory() -> int | None:
    """Bytes of memory in this machine; None where the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def need_memory(size: int, what: str) -> None:
    """Refuses a size larger than the memory of this machine.

    what: the beginning of the sentence, such as "z.npz".
    """
    there = memory()
    if there is not None and size > there:
        raise ValueError(
            f"{what} would take {_gigabytes(size)} GB, more than this machine's memory of {_gigabytes(there)} GB"
        )


def _gigabytes(size: int) -> str:
    return f"{size // GIGABYTE:,}" if size >= 10 * GIGABYTE else f"{size / GIGABYTE:.1f}"


def bounded_lines(file: Any, name: str, longest: int = MOST_CHARACTERS) -> Iterator[str]:
    """The lines of an opened text; a line without an end is refused before it fills the memory."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise ValueError(f"line {number} of {name} is longer than {longest:,} characters: it is no text of lines")
        yield line


class Bounded:
    """A stream that refuses to go beyond ``most`` bytes, for readers that do not check the sizes stated in it."""

    def __init__(self, stream: Any, most: int, name: str) -> None:
        self.stream, self.most, self.name = stream, most, name

    def read(self, size: int = -1) -> bytes:
        if size < 0 or self.stream.tell() + size > self.most:
            raise ValueError(f"{self.name} holds more than {self.most:,} bytes once unpacked, or asks for more")
        return bytes(self.stream.read(size))

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0 and place > self.most:
            raise ValueError(f"{self.name} holds more than {self.most:,} bytes once unpacked, or asks for more")
        return int(self.stream.seek(place, whence))

    def tell(self) -> int:
        return int(self.stream.tell())


def counted(items: Iterable[Any], most: int, sentence: str) -> Iterator[Any]:
    """The items, at most ``most`` of them; more raise a ValueError with ``sentence``."""
    for number, item in enumerate(items):
        if number >= most:
            raise ValueError(sentence)
        yield item
