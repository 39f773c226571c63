"""Loop 3, for any formula: plain autograd on a strip of similarities at a time.

The loop computes the similarities of a block of anchors and cuts the block into thin strips. Each strip is a small
autograd graph of its own: similarities are its leaves, the objective's ``block`` is its formula, and the gradient with
respect to the strip overwrites the similarities. Two matrix products add the block's gradient to those of the
embeddings, and the block is dropped.

A formula of distances needs more digits than cosines have where rows nearly coincide. A CPU looks for such rows in
every strip. Another device would have to be waited for, so a strip that may have such rows counts for nothing if it has
them, the device is asked once, after the last block, and those strips are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Direction, apply_metric, positives
from hypersphere.engine.mask import rows_in_cache
from hypersphere.engine.objective import PairContract, Read, Statistics
from hypersphere.engine.streaming.accumulate import (
    GradAccumulator,
    block_sizes,
    cut,
    grads_of,
    record,
    slices,
)

# Which gradients a strip's statistics need: the accumulators and, for each, pairs of a statistic and its weights.
Pairs = list[tuple[Tensor, Tensor]]
Demand = Callable[[Statistics, slice], list[tuple[GradAccumulator, Pairs]]]


def visit(
    objective: PairContract, direction: Direction, accumulators: Sequence[GradAccumulator], block_rows: int | None
) -> Statistics:
    """Visits this process's anchors once: returns their statistics, adds to the accumulators' gradients."""
    active = [each for each in accumulators if each.weights[direction.anchor]]

    def demand(out: Statistics, strip: slice) -> list[tuple[GradAccumulator, Pairs]]:
        return [(each, each.weighted(out, direction, strip)) for each in active]

    return _visit(objective, direction, demand if active else None, block_rows)


def visit_for_each_statistic(
    objective: PairContract,
    direction: Direction,
    create: Callable[[], GradAccumulator],
    block_rows: int | None,
) -> tuple[Statistics, dict[str, GradAccumulator]]:
    """The same, with the gradient of the sum of every statistic that can be differentiated, by name."""
    by_name: dict[str, GradAccumulator] = {}

    def demand(out: Statistics, strip: slice) -> list[tuple[GradAccumulator, Pairs]]:
        for name, value in out.items():
            if value.requires_grad and name not in by_name:
                by_name[name] = create()
        # A statistic may be a constant in some strips. The first stays last, since its gradient is written in place.
        return [
            (total, [(out[name], torch.ones_like(out[name]))] if out[name].requires_grad else [])
            for name, total in reversed(by_name.items())
        ]

    return _visit(objective, direction, demand, block_rows), by_name


def _visit(objective: PairContract, direction: Direction, demand: Demand | None, block_rows: int | None) -> Statistics:
    batch, shard = direction.batch, direction.batch.shard
    context = objective.prepare(batch.rows[direction.anchor], batch.rows[direction.positive_view])
    parameters = list(objective.parameters())
    widths = [direction.num_columns(read) for read in direction.reads]
    own_columns = 0 if batch.own_negatives is None else batch.own_negatives.num_columns
    rows, strip_rows = block_sizes([*widths, own_columns], block_rows, batch.rows[0].device)
    if not widths:  # an objective of the rows alone
        strip_rows = min(strip_rows, rows_in_cache(batch.rows[0]))
    memory = [batch.rows[0].new_empty(min(rows, shard.size), width) for width in widths]
    statistics: Statistics = {}
    undecided: list[tuple[slice, Tensor]] = []  # strips, and whether their cosines lack digits

    def compute(block: slice, wait: bool) -> None:
        # 1. Similarities of the block.
        matrices = [matrix[: block.stop - block.start] for matrix in memory]
        for read, matrix in zip(direction.reads, matrices, strict=True):
            _similarities(objective, direction, read, block, matrix)
        block_grads: dict[tuple[int, int], _BlockGrad] = {}  # by accumulator and matrix
        for strip in slices(block.start, block.stop, strip_rows):
            inside = slice(strip.start - block.start, strip.stop - block.start)
            # 2. The formula, as an autograd graph of the strip alone.
            strips = [matrix[inside] for matrix in matrices]
            asked: list[Tensor] | None = None if wait else []
            out, leaves = _graph(objective, direction, strip, strips, context, demand is not None, asked)
            near = torch.stack(asked).any() if asked else None
            if near is not None:
                undecided.append((strip, near))
            record(statistics, out, shard.within(strip), shard.size)
            # 3. ∂S of the strip. That of the last accumulator takes the place of the similarities.
            demanded = [] if demand is None else demand(out, strip)
            for number, (accumulator, pairs) in enumerate(demanded):
                last = number == len(demanded) - 1
                grads = grads_of(pairs, [*leaves, *parameters], retain=not last)
                if near is not None:
                    grads = [None if grad is None else torch.where(near, 0, grad) for grad in grads]
                num_own = int(batch.own_negatives is not None)
                of_anchors, of_matrices, of_own, of_parameters = cut(grads, batch.num_views + 1, len(matrices), num_own)
                accumulator.add_of_anchors(direction, strip, of_anchors)
                accumulator.add_of_own(shard.within(strip), of_own)
                accumulator.add_to_parameters(of_parameters)
                for index, grad in enumerate(of_matrices):
                    new = _BlockGrad(accumulator, direction.reads[index], matrices[index], in_place=last)
                    block_grads.setdefault((id(accumulator), index), new).write(inside, grad)
        # 4. ∂X, ∂Y: two products for each matrix that carries a gradient.
        for each in block_grads.values():
            if each.grad is not None:
                _accumulate(objective, direction, each.read, block, each.accumulator, each.grad)

    for block in slices(shard.start, shard.stop, rows):
        compute(block, wait=batch.rows[0].is_cpu)
    if undecided:
        answers = torch.stack([near for _, near in undecided]).tolist()  # the one wait
        for (strip, _), near in zip(undecided, answers, strict=True):
            if near:
                compute(strip, wait=True)
    return statistics


class _BlockGrad:
    """The gradient of a block of similarities, assembled strip by strip; None while no strip has one."""

    def __init__(self, accumulator: GradAccumulator, read: Read, matrix: Tensor, in_place: bool) -> None:
        self.accumulator, self.read, self.matrix, self.in_place = accumulator, read, matrix, in_place
        self.grad: Tensor | None = None

    def write(self, strip: slice, grad: Tensor | None) -> None:
        if self.grad is None and grad is not None:
            self.grad = self.matrix if self.in_place else torch.empty_like(self.matrix)
            self.grad[: strip.start] = 0
        if self.grad is not None:
            self.grad[strip] = 0 if grad is None else grad


def _similarities(objective: PairContract, direction: Direction, read: Read, block: slice, matrix: Tensor) -> None:
    view, _ = direction.sources(read)
    rows = apply_metric(objective, direction.batch.rows[view][block])
    for source, columns in direction.columns(read):
        torch.mm(rows, direction.batch.rows[source].T, out=matrix[:, columns])


def _graph(
    objective: PairContract,
    direction: Direction,
    strip: slice,
    strips: list[Tensor],
    context: Any,
    grad: bool,
    asked: list[Tensor] | None,
) -> tuple[Statistics, list[Tensor]]:
    """The statistics of a strip of anchors, and the leaves of their graph: all views, positives, matrices, and the
    anchors' own negatives if there are any."""
    views, batch = direction.views(strip), direction.batch
    own = None if batch.own_negatives is None else batch.own_negatives.rows[batch.shard.within(strip)].detach()
    positive = positives(objective, views[direction.anchor], views[direction.positive_view])
    matrices = [matrix.detach() for matrix in strips]
    with torch.set_grad_enabled(grad):
        leaves = [*views, positive, *matrices]
        for leaf, moves in zip(leaves, direction.moving(objective), strict=True):
            leaf.requires_grad_(grad and moves)
        if own is not None:
            leaves.append(own.requires_grad_(grad and not objective.one_sided))
        anchors = direction.anchors(objective, strip, views, positive, matrices, context, own, asked)
        return objective.block(anchors), leaves


def _accumulate(
    objective: PairContract, direction: Direction, read: Read, block: slice, accumulator: GradAccumulator, grad: Tensor
) -> None:
    """∂X += ∂S Y and ∂Y += ∂Sᵀ X."""
    view, _ = direction.sources(read)
    rows, plain = apply_metric(objective, direction.batch.rows[view][block]), objective.metric(grad) is None
    for source, columns in direction.columns(read):
        keys = direction.batch.rows[source]
        if plain:
            accumulator.add_product(view, block, grad[:, columns], keys)
        elif accumulator.like[view] is not None:
            accumulator.add(view, block, apply_metric(objective, grad[:, columns] @ keys))
        if not objective.one_sided:
            accumulator.add_product(source, slice(0, len(keys)), grad[:, columns].T, rows)
