"""Cutting rows into pieces, and the memory of a piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

# A block is large enough for matrix products to run at full speed, a strip for what a step of Python costs and small
# enough to stay in cache, or nearly.
BLOCK_ELEMENTS, STRIP_ELEMENTS, BLOCK_ROWS = 2**24, 2**21, (512, 2048)

# What is between two operations on so many numbers is in the nearest cache.
CACHED_ELEMENTS = 2**19


@dataclass(frozen=True)
class Pieces:
    """How many rows a block and a strip of it have, and the memory of a block's matrices."""

    rows: int
    strip: int
    matrices: list[Tensor]


def sizes(columns: list[int], copies: int = 1) -> tuple[int, int]:
    """Rows of a block, of all of whose matrices there are so many copies in memory, and of a strip."""
    few, many = BLOCK_ROWS
    width = max(1, sum(columns))
    return max(few, min(many, BLOCK_ELEMENTS // (copies * width))), max(1, STRIP_ELEMENTS // width)


def matrices_in(memory: Tensor, rows: int, columns: list[int]) -> list[Tensor]:
    """Matrices of so many columns, one after the other."""
    parts = memory[: rows * sum(columns)].split([rows * width for width in columns])
    return [part.view(rows, width) for part, width in zip(parts, columns, strict=True)]


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Consecutive slices; one that is empty if there is nothing to cut (a process without rows)."""
    for first in range(start, max(stop, start + 1), step):
        yield slice(first, min(first + step, stop))


def rows_in_cache(matrix: Tensor) -> int:
    """How many rows of a matrix stay in a processor's cache; elsewhere all of them."""
    return max(1, CACHED_ELEMENTS // max(1, matrix.shape[1]) if matrix.is_cpu else len(matrix))


def strips_in_cache(matrix: Tensor) -> Iterator[slice]:
    return slices(0, len(matrix), rows_in_cache(matrix))
