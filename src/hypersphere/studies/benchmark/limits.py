"""Lower bounds of the time: the matrix products that a straight evaluation needs and nothing else (the limit), and
InfoNCE written by hand.

Every similarity matrix that is read costs one product, and the gradient of each side costs one more: three in all. A
coupled objective reads the similarities twice, which makes four. One-sided objectives have no gradient of the keys and
save its product. A matrix without gradient needs neither gradient product. A matrix that is used only for numbers per
anchor, such as a gate, is not read a second time. The engine needs still fewer products for symmetric matrices and for
gradients of few entries, so its time may fall below the limit.
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
from hypersphere.studies.benchmark.cases import as_loss, inputs

BLOCK_ROWS, STRIP_ELEMENTS = 512, 2**20  # of the bare products
HAND_BLOCK_ROWS, HAND_STRIP_ROWS = 2048, 64  # of InfoNCE by hand


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
    """Counts the work by watching the objective read its matrices, block by block, on a small batch."""
    z1, z2, labels = inputs(8, dim)
    seen: list[Work] = []
    busy: list[Any] = []
    watched: list[Any] = [part for part in objective.modules() if hasattr(part, "block")]
    for part in watched:
        part.block = _watch(part, part.block, seen, busy)
    try:
        with dense():
            as_loss(objective)(z1, z2, labels)
    finally:
        for part in watched:
            del part.block
    return sum(seen, Work())


def _watch(part: Any, block: Callable[[Any], Any], seen: list[Work], busy: list[Any]) -> Callable[[Any], Any]:
    """The objective's ``block``, wrapped to record the work that each of its matrices needs."""

    def noting(anchors: Any) -> Any:
        if busy:  # an inner objective reads the matrices of the outer one
            return block(anchors)
        busy.append(part)
        try:
            seen.extend(_needs(part, block, anchors))
            return block(anchors)
        finally:
            busy.pop()

    return noting


def _needs(part: Any, block: Callable[[Any], Any], anchors: Any) -> Iterator[Work]:
    """The cost of each matrix in ``anchors``."""
    leaves = tuple(m.detach().clone().requires_grad_(m.requires_grad) for m in anchors.negatives)
    values = block(replace(anchors, negatives=leaves))
    for index, leaf in enumerate(leaves):
        moves = leaf.requires_grad and any(_depends(value, leaf) for value in values.values())
        again = part.coupled and (moves or _matters(block, anchors, leaves, index, values))
        width = leaf.shape[1] // leaf.shape[0]
        yield Work(width * (1 + again), width * moves, width * (moves and not part.one_sided), width)


def _depends(value: Tensor, leaf: Tensor) -> bool:
    if not value.requires_grad:
        return False
    (grad,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True, retain_graph=True)
    return grad is not None


def _matters(block: Callable[[Any], Any], anchors: Any, leaves: tuple[Tensor, ...], index: int, values: Any) -> bool:
    """Whether another matrix at this index would change a number that carries a gradient."""
    other = tuple(0.9 * leaf.detach().roll(3, 1) if i == index else leaf for i, leaf in enumerate(leaves))
    changed = block(replace(anchors, negatives=other))
    return any(v.requires_grad and not torch.equal(v, changed[name]) for name, v in values.items())


def blocked(needed: Work, size: int, dim: int) -> Callable[[], None]:
    """The products in blocks of rows, into preallocated memory."""
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
    """The products of whole matrices, into preallocated memory."""
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


class InfoNCEByHand:
    """InfoNCE written for speed alone, to show the cost of the engine's generality. It computes the value and both
    gradients by formula, block by block, into preallocated memory.

    For unit rows x, y and p_ij = exp(x_i·y_j/t) / Σ_k exp(x_i·y_k/t): ∂L/∂x_i = (Σ_j p_ij y_j - y_i) / (N t) and
    ∂L/∂y_j = (Σ_i p_ij x_i - x_j) / (N t). Temperatures too low for float32 are not handled.
    """

    def __init__(self, size: int, temperature: float = 0.05) -> None:
        self.size, self.scale = size, 1 / temperature
        self._powers = torch.empty(min(HAND_BLOCK_ROWS, size), size)

    @torch.no_grad()
    def __call__(self, z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, and the gradients of z1 and z2 (N, D)."""
        inverse = [torch.linalg.vector_norm(z, dim=1, keepdim=True).reciprocal() for z in (z1, z2)]
        x, y = z1 * inverse[0], z2 * inverse[1]
        grad_x, grad_y = torch.empty_like(x), torch.empty_like(y)
        weight = self.scale / self.size
        sums = x.new_empty(self.size, 1)
        for start in range(0, self.size, HAND_BLOCK_ROWS):
            rows = slice(start, min(start + HAND_BLOCK_ROWS, self.size))
            powers = self._powers[: rows.stop - rows.start]
            torch.addmm(powers, x[rows], y.T, beta=0, alpha=self.scale, out=powers)
            for first in range(0, len(powers), HAND_STRIP_ROWS):
                strip = slice(first, first + HAND_STRIP_ROWS)
                torch.sum(powers[strip].exp_(), dim=1, keepdim=True, out=sums[rows][strip])
            share = weight / sums[rows]
            grad_x[rows].addmm_(powers, y, beta=0).mul_(share)
            grad_y.addmm_(powers.T, x[rows] * share, beta=int(start > 0))
        for grad, own, other, factor in ((grad_x, x, y, inverse[0]), (grad_y, y, x, inverse[1])):
            for first in range(0, self.size, 256):
                part = slice(first, first + 256)
                g = grad[part].sub_(other[part], alpha=weight)
                g.addcmul_((g * own[part]).sum(dim=1, keepdim=True), own[part], value=-1).mul_(factor[part])
        return sums.log().mean() - self.scale * (x * y).sum() / self.size, grad_x, grad_y
