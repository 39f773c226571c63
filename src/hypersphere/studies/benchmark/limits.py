"""The limit: the matrix products that a straight evaluation needs, and nothing else.

Every similarity matrix that is read costs one product, and each side it moves costs one more: three in all. An
objective whose anchors are coupled must see the similarities twice, which makes four. Where only anchors move
(one-sided objectives) the keys' product falls away; a matrix that carries no gradient needs neither; and one that
serves only numbers per anchor, such as a gate, need not be seen a second time. The engine does with fewer still where
it can (symmetric matrices, gradients of few entries), so that ours may fall below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hypersphere import dense
from hypersphere.objectives import Objective
from hypersphere.studies.benchmark.cases import inputs

BLOCK_ROWS, STRIP_ELEMENTS = 512, 2**20


@dataclass(frozen=True)
class Work:
    """Products of N×D by D×N or N×N by N×D, and the N×N matrices that are read."""

    similarities: int = 0
    to_anchors: int = 0
    to_keys: int = 0
    matrices: int = 0

    @property
    def products(self) -> int:
        return self.similarities + self.to_anchors + self.to_keys

    def __add__(self, other: Work) -> Work:
        return Work(
            self.similarities + other.similarities,
            self.to_anchors + other.to_anchors,
            self.to_keys + other.to_keys,
            self.matrices + other.matrices,
        )


def work(objective: Objective, dim: int) -> Work:
    """Counted by watching the objective read its matrices, block by block, on a small batch."""
    z1, z2, labels = inputs(8, dim)
    seen: list[Work] = []
    busy: list[Any] = []
    watched: list[Any] = [part for part in objective.modules() if hasattr(part, "block")]
    for part in watched:
        part.block = _watch(part, part.block, seen, busy)
    try:
        with dense():
            objective(z1, z2, labels)
    finally:
        for part in watched:
            del part.block
    return sum(seen, Work())


def _watch(part: Any, block: Callable[[Any], Any], seen: list[Work], busy: list[Any]) -> Callable[[Any], Any]:
    """The objective's ``block``, noting which of its matrices matter for what."""

    def noting(anchors: Any) -> Any:
        if busy:  # an objective inside another: the outer one's matrices are all there are
            return block(anchors)
        busy.append(part)
        try:
            seen.extend(_needs(part, block, anchors))
            return block(anchors)
        finally:
            busy.pop()

    return noting


def _needs(part: Any, block: Callable[[Any], Any], anchors: Any) -> Iterator[Work]:
    """What each of the matrices in ``anchors`` costs."""
    leaves = tuple(m.detach().clone().requires_grad_(m.requires_grad) for m in anchors.negatives)
    found = block(replace(anchors, negatives=leaves))
    for place, leaf in enumerate(leaves):
        moves = leaf.requires_grad and any(_depends(value, leaf) for value in found.values())
        again = part.coupled and (moves or _matters(block, anchors, leaves, place, found))
        width = leaf.shape[1] // leaf.shape[0]
        yield Work(width * (1 + again), width * moves, width * (moves and not part.one_sided), width)


def _depends(value: Tensor, leaf: Tensor) -> bool:
    if not value.requires_grad:
        return False
    (slope,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True, retain_graph=True)
    return slope is not None


def _matters(block: Callable[[Any], Any], anchors: Any, leaves: tuple[Tensor, ...], place: int, found: Any) -> bool:
    """Whether another matrix in this place would change a number that carries a gradient."""
    other = tuple(0.9 * leaf.detach().roll(3, 1) if p == place else leaf for p, leaf in enumerate(leaves))
    changed = block(replace(anchors, negatives=other))
    return any(v.requires_grad and not torch.equal(v, changed[name]) for name, v in found.items())


def blocked(needed: Work, size: int, dim: int) -> Callable[[], None]:
    """The products in blocks of rows, into memory that is there already."""
    x, y = torch.randn(size, dim), torch.randn(size, dim)
    S, to_x, to_y = torch.empty(BLOCK_ROWS, size), torch.empty_like(x), torch.empty_like(y)

    def run() -> None:
        for start in range(0, size, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, size))
            block = S[: rows.stop - rows.start]
            for _ in range(needed.similarities):
                torch.mm(x[rows], y.T, out=block)
            for _ in range(needed.to_anchors):
                torch.mm(block, y, out=to_x[rows])
            for _ in range(needed.to_keys):
                torch.mm(block.T, x[rows], out=to_y)

    return run


def whole(needed: Work, size: int, dim: int) -> Callable[[], None]:
    """The products of whole matrices, into memory that is there already."""
    x, y = torch.randn(size, dim), torch.randn(size, dim)
    S, to_x, to_y = torch.empty(size, size), torch.empty_like(x), torch.empty_like(y)

    def run() -> None:
        for _ in range(needed.similarities):
            torch.mm(x, y.T, out=S)
        for _ in range(needed.to_anchors):
            torch.mm(S, y, out=to_x)
        for _ in range(needed.to_keys):
            torch.mm(S.T, x, out=to_y)

    return run


def elementwise(function: str, matrices: int, size: int) -> Callable[[], None]:
    """One pass of an expensive function over every similarity, in strips that stay in cache."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "log1p": torch.log1p,
        "softplus": F.softplus,
        "arccos": torch.arccos,
    }
    apply = functions[function]
    strip = torch.rand(STRIP_ELEMENTS)
    elements = matrices * size * size

    def run() -> None:
        for start in range(0, elements, STRIP_ELEMENTS):
            apply(strip[: min(STRIP_ELEMENTS, elements - start)])

    return run
