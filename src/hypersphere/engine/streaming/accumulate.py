"""What the three loops share: how rows are cut into blocks, where gradients are added up, and how they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, Direction, apply_metric, directions
from hypersphere.engine.mask import rows_in_cache
from hypersphere.engine.objective import PairContract, Statistics
from hypersphere.geometry.unit import has_normal_numbers, widened

# A block is large enough for matrix products to run at full speed. A strip is large enough to hide the cost of a step
# of Python, and small enough to stay in cache, or nearly.
BLOCK_ELEMENTS, STRIP_ELEMENTS, BLOCK_ROWS = 2**24, 2**21, (512, 2048)

# On a GPU a block takes this share of the free memory, and a strip this share of a block: the graph of a formula holds
# several numbers for each similarity, and a larger strip hides the launch of a kernel.
GPU_SHARE, GPU_STRIP = 16, 4

RAW_ROWS = 256  # carried to raw rows at a time, so that they stay in cache

# Weights of the statistics of one direction's anchors, by name: one for all anchors, or one for each (N,).
Weights = dict[str, float | Tensor]


def block_sizes(columns: Sequence[int], block_rows: int | None, device: torch.device) -> tuple[int, int]:
    """Rows of a block and of a strip; ``block_rows`` overrides both."""
    if block_rows is not None:
        return block_rows, block_rows
    fewest, most = BLOCK_ROWS
    width = max(1, sum(columns))
    if device.type == "cuda":
        rows = max(1, min(most, free_elements(device) // GPU_SHARE // width))
        return rows, max(1, rows // GPU_STRIP)
    return max(fewest, min(most, BLOCK_ELEMENTS // width)), max(1, STRIP_ELEMENTS // width)


def free_elements(device: torch.device) -> int:
    """How many numbers of float64, the widest type, fit into a GPU's free memory. Memory that torch holds and does not
    use counts as free."""
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (free + unused) // 8


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Consecutive slices; a single empty one if there is nothing to cut (a process without rows)."""
    for first in range(start, max(stop, start + 1), step):
        yield slice(first, min(first + step, stop))


def strips_in_cache(matrix: Tensor) -> Iterator[slice]:
    """Rows of a matrix that stay in a processor's cache between two operations."""
    return slices(0, len(matrix), rows_in_cache(matrix))


def grads_of(pairs: Sequence[tuple[Tensor, Tensor]], leaves: Sequence[Any], retain: bool) -> list[Tensor | None]:
    """∂(Σ weight · value)/∂leaf of pairs (value, weight); None where no value depends on the leaf."""
    moving = [leaf for leaf in leaves if leaf.requires_grad]
    if not pairs or not moving:
        return [None] * len(leaves)
    values, weights = zip(*pairs, strict=True)
    grads = iter(torch.autograd.grad(values, moving, weights, allow_unused=True, retain_graph=retain))
    return [next(grads) if leaf.requires_grad else None for leaf in leaves]


def cut(grads: list[Tensor | None], *sizes: int) -> list[list[Tensor | None]]:
    """A list in consecutive pieces of these sizes, and what is left."""
    places = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    return [grads[start:stop] for start, stop in zip(places, [*places[1:], None], strict=True)]


def grads_of_value(value: Tensor, leaves: Sequence[Any]) -> list[Tensor | None]:
    """∂value/∂leaf of a scalar, which may be differentiated again."""
    return grads_of([(value, torch.ones_like(value))] if value.requires_grad else [], leaves, retain=True)


def record(statistics: Statistics, block: Statistics, place: slice, size: int) -> None:
    """Writes a block's statistics into those of all ``size`` anchors of this process.

    It copies them, because a block's statistics may be views of its similarities.
    """
    for name, value in block.items():
        statistics.setdefault(name, value.new_empty(size))[place] = value.detach()


@dataclass
class GradAccumulator:
    """The gradients of one number, Σ weight · statistic, while a loop adds to them.

    weights: of the statistics, by direction.
    like: the unit rows of the views and the negatives; None where no gradient is needed.
    positives: by direction, the gradients of the positive similarities of this process's anchors. They are carried to
        the rows of both views at the end, with the step from unit rows to raw ones.
    parameters: the gradients of the objective's parameters.
    own: those of the anchors' own negatives (n, M, D); None if there are none, or none is needed.
    """

    weights: list[Weights]
    like: list[Tensor | None]
    positives: list[Tensor]
    parameters: list[Tensor]
    own: Tensor | None = None
    _rows: list[Tensor | None] = field(init=False)
    _written: list[int] = field(init=False)  # the first rows that hold a gradient; the rest is uninitialised

    def __post_init__(self) -> None:
        self._rows, self._written = [None] * len(self.like), [0] * len(self.like)

    def get(self, index: int) -> Tensor | None:
        """The gradient of a view or of the negatives so far; None if it is not needed."""
        like, rows = self.like[index], self._rows[index]
        if like is None:
            return None
        if rows is None:
            rows = self._rows[index] = torch.empty_like(like)
        if self._written[index] < len(rows):
            rows[self._written[index] :] = 0
            self._written[index] = len(rows)
        return rows

    def add(self, index: int, block: slice, grad: Tensor) -> None:
        """Adds to the gradient of a block of rows, if it is needed."""
        rows, first = self._block(index, block)
        if rows is not None:
            rows.copy_(grad) if first else rows.add_(grad)

    def add_product(self, index: int, block: slice, left: Tensor, right: Tensor, weight: Tensor | None = None) -> None:
        """Adds ``left @ right``, its rows times ``weight`` (B, 1), to the gradient of a block of rows, if needed."""
        rows, first = self._block(index, block)
        if rows is None:
            return
        if weight is None:
            rows.addmm_(left, right, beta=0 if first else 1)
        elif first:
            rows.addmm_(left, right, beta=0).mul_(weight)
        else:
            rows += torch.mm(left, right).mul_(weight)

    def add_to_parameters(self, grads: Sequence[Tensor | None]) -> None:
        for total, grad in zip(self.parameters, grads, strict=True):
            if grad is not None:
                total += grad

    def add_of_anchors(self, direction: Direction, block: slice, grads: Sequence[Tensor | None]) -> None:
        """Adds the gradients of the block's rows in all views, and of the anchors' positive similarities."""
        *of_views, of_positive = grads
        for view, grad in enumerate(of_views):
            if grad is not None:
                self.add(view, block, grad)
        if of_positive is not None:
            self.positives[direction.anchor][direction.batch.shard.within(block)] += of_positive

    def add_of_own(self, here: slice, grads: Sequence[Tensor | None]) -> None:
        """Adds the gradient of the own negatives of some anchors of this process, if there is one."""
        for grad in grads:
            if grad is not None and self.own is not None:
                self.own[here] += grad

    def weighted(self, statistics: Statistics, direction: Direction, block: slice) -> list[tuple[Tensor, Tensor]]:
        """The statistics of a block that can be differentiated, each with the weights of its anchors."""
        pairs = []
        for name, weight in self.weights[direction.anchor].items():
            value = statistics[name]
            if value.requires_grad:
                here = direction.batch.shard.within(block)
                pairs.append((value, weight[here] if isinstance(weight, Tensor) else torch.full_like(value, weight)))
        return pairs

    def _block(self, index: int, block: slice) -> tuple[Tensor | None, bool]:
        """The gradient of a block of rows, and whether nothing was added to it yet.

        A first product is written instead of added, so that nothing has to be filled with zeros.
        """
        like = self.like[index]
        if like is None:
            return None, False
        if self._rows[index] is None:
            self._rows[index] = torch.empty_like(like)
        first = block.start == self._written[index]
        if first:
            self._written[index] = block.stop
        else:
            self.get(index)
        rows = self._rows[index]
        assert rows is not None
        return rows[block], first


# ------------------------------------------------------------------------------------------ from unit rows to raw ones


def raw_grads(
    objective: PairContract,
    batch: Batch,
    accumulator: GradAccumulator,
    inverse: list[Tensor],
    tensors: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Gradients of this process's raw rows, times the number of processes, since DDP averages over them afterwards."""
    grads: list[Tensor | None] = []
    all_directions = directions(objective, batch)
    for index, z in enumerate(tensors):
        if z is not None and index == batch.num_views and batch.own_negatives is not None:
            grads.append(_raw_grad_of_own(objective, batch, accumulator, inverse[index], z))
            continue
        of_all = None if z is None else accumulator.get(index)
        if of_all is None or z is None:
            grads.append(None)
            continue
        shard = batch.shard_of(index)
        grad = shard.local(of_all)
        _finish_rows(objective, all_directions, accumulator, index, grad, inverse[index])
        if objective.rows is not None:
            grad = through_rows(objective.rows, z, grad)
        # Kept in float32 or better: autograd casts to the input's type after backward has scaled it.
        grads.append(grad * shard.world_size if shard.world_size > 1 else grad)
    return grads


def _raw_grad_of_own(
    objective: PairContract, batch: Batch, accumulator: GradAccumulator, inverse: Tensor, z: Tensor
) -> Tensor | None:
    """The same for the anchors' own negatives (n, M, D), which no other process sees."""
    if accumulator.own is None or batch.own_negatives is None:
        return None
    grad, h = accumulator.own.flatten(0, 1), batch.own_negatives.rows.flatten(0, 1)
    if objective.rows is None:
        grad.addcmul_((grad * h).sum(dim=1, keepdim=True), h, value=-1).mul_(inverse)
    else:
        grad = through_rows(objective.rows, z.flatten(0, 1), grad)
    return (grad * batch.shard.world_size).view(z.shape)


def through_rows(rows: Callable[[Tensor], Tensor], z: Tensor, grad: Tensor) -> Tensor:
    """From the gradient of an objective's own rows to that of raw ones, in the type of the former."""
    with torch.enable_grad():
        leaf = widened(z.detach()).to(grad.dtype).requires_grad_()
        (grad,) = torch.autograd.grad(rows(leaf), leaf, grad)
    return grad if z.dtype != torch.float16 else grad * has_normal_numbers(z)


def _finish_rows(
    objective: PairContract,
    all_directions: list[Direction],
    accumulator: GradAccumulator,
    index: int,
    grad: Tensor,
    inverse: Tensor,
) -> None:
    """Adds the positives' part to the gradient of a view's rows, then carries it from unit rows h to raw ones:
    (I - h hᵀ) ∂L/∂h over the norm. It works in place, on a few rows at a time, while they are in cache."""
    batch = all_directions[0].batch
    shard = batch.shard_of(index)
    unit_rows = shard.local(batch.rows[index])
    of_positives = []
    for direction, grads in zip(all_directions, accumulator.positives, strict=True):
        if bool(grads.any()):
            if index == direction.anchor:
                of_positives.append((grads, direction.positive_view))
            if index == direction.positive_view and not objective.one_sided:
                of_positives.append((grads, direction.anchor))
    for few in slices(0, len(grad), RAW_ROWS):
        g, h = grad[few], unit_rows[few]
        for grads, other in of_positives:
            g.addcmul_(grads[few].unsqueeze(1), apply_metric(objective, shard.local(batch.rows[other])[few]))
        if objective.rows is None:
            g.addcmul_((g * h).sum(dim=1, keepdim=True), h, value=-1).mul_(inverse[few])
