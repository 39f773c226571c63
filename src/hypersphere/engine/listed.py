"""Gradients of a strip of similarities that need not be matrices of their own.

Where it is known that a strip is differentiated once, reductions may list what its gradient consists of: a few
entries, or a matrix times one factor for each row. What is listed is multiplied when it is written to the block's
gradient, which takes the place of the similarities, or, if nothing but few entries is there, needs no matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# Up to so many entries of ∂L/∂S in each row are added one by one.
FEW_ENTRIES = 8


@dataclass
class Few:
    """0 but at a few places."""

    rows: Tensor
    columns: Tensor
    values: Tensor

    def below(self, row: int) -> Few:
        """The same places in a matrix in which these begin at a row: three vectors."""
        rows, columns, values = torch.broadcast_tensors(self.rows + row, self.columns, self.values)
        return Few(rows.flatten(), columns.flatten(), values.flatten())

    def add_to(self, goal: Tensor) -> None:
        goal.index_put_((self.rows, self.columns), self.values, accumulate=True)


@dataclass
class Scaled:
    """A matrix times one factor (B,) for each row."""

    matrix: Tensor
    factor: Tensor

    def write_to(self, goal: Tensor, add: bool) -> None:
        factor = self.factor.unsqueeze(1)
        goal.addcmul_(self.matrix, factor) if add else torch.mul(self.matrix, factor, out=goal)


@dataclass
class Listed:
    """What is listed of the gradient of a leaf."""

    leaf: Tensor
    few: list[Few] = field(default_factory=list)
    scaled: list[Scaled] = field(default_factory=list)

    def clear(self) -> None:
        self.few, self.scaled = [], []


@dataclass
class Once:
    """A promise that graphs are run backward at most once after they were built."""

    listed: list[Listed]
    scratch: list[Tensor]  # memory of strips before, whose graphs are gone
    used: int = 0  # so many of these
    built: bool = False

    def of(self, x: Tensor) -> Listed | None:
        """None: the gradient of x must be a matrix."""
        return next((each for each in self.listed if each.leaf is x), None)

    def empty_like(self, x: Tensor) -> Tensor:
        """For what is seen by nobody but the graph: the next strip has its memory again."""
        self.used += 1
        known = self.scratch[self.used - 1 : self.used]
        if not known or known[0].numel() < x.numel() or (known[0].dtype, known[0].device) != (x.dtype, x.device):
            self.scratch[self.used - 1 : self.used] = known = [x.new_empty(x.numel())]
        return known[0][: x.numel()].view(x.shape)


_once: ContextVar[Once | None] = ContextVar("once", default=None)


@contextmanager
def differentiated_once(
    leaves: Sequence[Tensor], once: bool = True, scratch: list[Tensor] | None = None
) -> Iterator[list[Listed]]:
    """A promise, if ``once``, that graphs built inside are run backward at most once afterwards, so that backward may
    reuse their memory, and that what it then lists is added to the gradients of ``leaves``. Whoever differentiates
    inside is given gradients as always. Whoever brings ``scratch`` also promises to need no graph any more that was
    built with it before."""
    promise = Once([Listed(leaf) for leaf in leaves], [] if scratch is None else scratch)
    token = _once.set(promise if once else None)
    try:
        yield promise.listed
    finally:
        promise.built = True
        _once.reset(token)


def current_promise() -> Once | None:
    return _once.get()


def remember_promise(ctx: Any, x: Tensor | None) -> None:
    """In the forward of an autograd Function of x, for its backward; None: the gradient of x must be a matrix."""
    ctx.promise = current_promise()
    ctx.listed = None if ctx.promise is None or x is None else ctx.promise.of(x)


def may_reuse(ctx: Any) -> bool:
    """Whether memory will not be needed again."""
    return ctx.promise is not None and ctx.promise.built


def may_list(ctx: Any) -> Listed | None:
    """Where to list the gradient of the leaf; None: it must be a matrix."""
    listed: Listed | None = ctx.listed
    return listed if may_reuse(ctx) else None


def _leaves() -> list[Tensor]:
    promise = _once.get()
    return [] if promise is None else [each.leaf for each in promise.listed]


def is_similarities(x: Tensor) -> bool:
    """Whether these are the numbers of a leaf, perhaps without its gradient."""
    return any(
        x is leaf or (x.data_ptr(), x.shape, x.stride()) == (leaf.data_ptr(), leaf.shape, leaf.stride())
        for leaf in _leaves()
    )


def overlaps_similarities(x: Tensor) -> bool:
    """Whether it shares memory with a leaf."""
    here = x.untyped_storage().data_ptr()
    return any(here == leaf.untyped_storage().data_ptr() for leaf in _leaves())


class BlockSlope:
    """The gradient of a block of similarities, put together strip by strip: entries as long as these are all there is,
    a matrix from then on."""

    def __init__(self, memory: Callable[[], Tensor]) -> None:
        self._memory = memory
        self.matrix: Tensor | None = None
        self.few: list[Few] = []

    def add(self, strip: slice, slope: Tensor | None, listed: Listed) -> None:
        if self.matrix is None and slope is None and not listed.scaled:
            self.few += [each.below(strip.start) for each in listed.few]
            return
        if self.matrix is None:
            self.matrix = self._memory()
            self.matrix[: strip.start].zero_()
        goal = self.matrix[strip]
        if slope is not None:
            goal.copy_(slope)
        elif not listed.scaled:
            goal.zero_()
        for number, each in enumerate(listed.scaled):
            each.write_to(goal, add=slope is not None or number > 0)
        for entries in listed.few:
            entries.add_to(goal)

    def settle(self, rows: int) -> None:
        """When all strips were added: entries are put into the matrix if there is one, or if they are many."""
        if self.matrix is None and sum(len(each.values) for each in self.few) > FEW_ENTRIES * rows:
            self.matrix = self._memory().zero_()
        if self.matrix is not None:
            for each in self.few:
                each.add_to(self.matrix)
            self.few = []
