"""Cutting rows into pieces."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

# What is between two operations on so many numbers is in the nearest cache.
CACHED_ELEMENTS = 2**19


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Consecutive slices; one that is empty if there is nothing to cut (a process without rows)."""
    for first in range(start, max(stop, start + 1), step):
        yield slice(first, min(first + step, stop))


def strips_in_cache(matrix: Tensor) -> Iterator[slice]:
    """Rows of a matrix, few enough to stay in a processor's cache; elsewhere all of them."""
    few = CACHED_ELEMENTS // max(1, matrix.shape[1]) if matrix.is_cpu else len(matrix)
    return slices(0, len(matrix), max(1, few))
