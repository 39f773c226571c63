"""Loop 2, for objectives that see only the hardest negative of each anchor: one product, and one entry of ∂S a row.

It goes through all blocks twice: first for the similarities, of which it keeps the largest of each row, then for the
formula and the gradients, which need no similarities any more.

The engine takes the argmax itself. The formula sees the largest similarity h_i = s_i,j(i) of each anchor as a leaf, and
∂L/∂S is ∂L/∂h_i at (i, j(i)) and 0 elsewhere, so that no product is needed to carry it to the embeddings.

Cosines of keys that nearly coincide with the anchor do not decide which is the nearest; distances do. A CPU looks for
such anchors in every block. Another device would have to be waited for, so it is asked once, after the last block, and
the blocks that have such anchors are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from hypersphere.engine.batch import Direction, apply_metric, positives
from hypersphere.engine.mask import argmax, fill_entries
from hypersphere.engine.objective import PairContract, Read, Statistics
from hypersphere.engine.streaming.accumulate import GradAccumulator, block_sizes, cut, grads_of, record, slices
from hypersphere.geometry.distances import NEAR, MatrixDistances, with_vectors


@dataclass(frozen=True)
class SparseGrad:
    """∂L/∂S of a block of rows with one entry in each."""

    block: slice
    columns: Tensor  # (B,) -1: the row has no entry
    values: Tensor  # (B,)


def visit(
    objective: PairContract, direction: Direction, accumulators: Sequence[GradAccumulator], block_rows: int | None
) -> Statistics:
    """Visits this process's anchors once: returns their statistics, adds to the accumulators' gradients."""
    batch, shard = direction.batch, direction.batch.shard
    context = objective.prepare(batch.rows[direction.anchor], batch.rows[direction.positive_view])
    parameters = list(objective.parameters())
    active = [each for each in accumulators if each.weights[direction.anchor]]
    widths = [direction.num_columns(read) for read in direction.reads]
    rows, _ = block_sizes([max(widths)], block_rows, batch.rows[0].device)
    # 1. Similarities, one block of a matrix after the other, and the largest of each row.
    memory = batch.rows[0].new_empty(min(rows, shard.size), max(widths))
    by_read = [_hardest(objective, direction, read, rows, memory) for read in direction.reads]
    statistics: Statistics = {}
    for block in slices(shard.start, shard.stop, rows):
        views, here = direction.views(block), shard.within(block)
        hardest = tuple(each.similarities(here) for each in by_read)
        # 2. The formula, as a small autograd graph.
        with torch.set_grad_enabled(bool(active)):
            positive = positives(objective, views[direction.anchor], views[direction.positive_view])
            leaves = [*views, positive, *hardest]
            for leaf, moves in zip(leaves, direction.moving(objective), strict=True):
                leaf.requires_grad_(moves and bool(active))
            anchors = direction.anchors(objective, block, views, positive, [], context)
            out = objective.block_from_hardest(anchors, hardest)
        record(statistics, out, here, shard.size)
        for number, each in enumerate(active):
            # 3. ∂S: the gradient of the hardest similarity, at its column.
            retain = number < len(active) - 1
            grads = grads_of(each.weighted(out, direction, block), [*leaves, *parameters], retain)
            of_anchors, of_hardest, of_parameters = cut(grads, batch.num_views + 1, len(hardest))
            each.add_of_anchors(direction, block, of_anchors)
            each.add_to_parameters(of_parameters)
            # 4. ∂X, ∂Y: one row added for each entry.
            for read, negative, grad in zip(direction.reads, by_read, of_hardest, strict=True):
                if grad is not None:
                    sparse = SparseGrad(block, negative.columns[here], grad)
                    _accumulate(objective, direction, read, sparse, each)
    return statistics


class HardestNegatives:
    """The hardest negative of each of n anchors in one matrix."""

    def __init__(self, n: int, like: Tensor) -> None:
        self.largest = like.new_empty(n)  # similarities; -inf: the anchor has no negative
        self.columns = torch.empty(n, dtype=torch.long, device=like.device)  # -1 if none
        self.squared = like.new_empty(n)  # distances
        self.any_near = False  # whether a distance has more digits than 2 - 2 cos

    def add(self, anchors: slice, matrix: Tensor) -> None:
        """Those of some anchors, from their similarities (B, M)."""
        if not matrix.shape[1]:
            self.largest[anchors], self.squared[anchors], self.columns[anchors] = -inf, inf, -1
            return
        column = argmax(matrix)
        largest = matrix.gather(1, column).squeeze(1)
        self.largest[anchors], self.squared[anchors] = largest, 2 - 2 * largest
        self.columns[anchors] = torch.where(largest > -inf, column.squeeze(1), -1)

    def compare(self, anchors: slice, matrix: Tensor, distances: MatrixDistances) -> None:
        """Decides by distance which is the nearest, where it is so near that cosines do not."""
        nearest = distances.nearest(matrix, self.largest[anchors])
        if nearest is None:
            return
        lines, columns = nearest.lines + anchors.start, nearest.columns.squeeze(1)
        self.largest[lines], self.columns[lines] = matrix[nearest.lines, columns], columns
        self.squared[lines] = nearest.squared[nearest.lines]
        self.any_near = True

    def similarities(self, anchors: slice) -> Tensor:
        """Those of a block of anchors, with their distances."""
        largest, squared = self.largest[anchors], self.squared[anchors]
        return with_vectors(largest, lambda _: squared) if self.any_near else largest


def _hardest(objective: PairContract, direction: Direction, read: Read, rows: int, memory: Tensor) -> HardestNegatives:
    """The hardest negatives of this process's anchors, found in blocks of ``rows``."""
    shard = direction.batch.shard
    hardest = HardestNegatives(shard.size, like=memory)
    by_distance = objective.rows is None and objective.metric(direction.batch.rows[0]) is None
    blocks = [(block, shard.within(block)) for block in slices(shard.start, shard.stop, rows)]
    for block, here in blocks:
        matrix = _similarities(objective, direction, read, block, memory)
        hardest.add(here, matrix)
        if by_distance and memory.is_cpu:
            hardest.compare(here, matrix, direction.distances(read, block))
    if by_distance and not memory.is_cpu:
        near = [(hardest.largest[here] > 1 - NEAR / 2).any() for _, here in blocks]
        for (block, here), any_near in zip(blocks, torch.stack(near).tolist(), strict=True):  # the one wait
            if any_near:
                matrix = _similarities(objective, direction, read, block, memory)
                hardest.compare(here, matrix, direction.distances(read, block))
    return hardest


def _similarities(objective: PairContract, direction: Direction, read: Read, block: slice, memory: Tensor) -> Tensor:
    """The similarities (B, M) of a block of anchors with their negatives, -inf in other columns."""
    view, _ = direction.sources(read)
    rows = apply_metric(objective, direction.batch.rows[view][block])
    width = direction.num_columns(read)
    matrix = memory.flatten()[: len(rows) * width].view(len(rows), width)
    for source, columns in direction.columns(read):
        torch.mm(rows, direction.batch.rows[source].T, out=matrix[:, columns])
    return fill_entries(matrix, direction.excluded(read, block), -inf)


def _accumulate(
    objective: PairContract, direction: Direction, read: Read, grad: SparseGrad, accumulator: GradAccumulator
) -> None:
    """∂x_i += ∂s_ij y_j and ∂y_j += ∂s_ij x_i for every entry (i, j).

    An entry in the columns of another source adds 0 times some row: to pick those of this one, a device would have to
    report how many they are.
    """
    view, _ = direction.sources(read)
    rows = direction.batch.rows
    for source, columns in direction.columns(read):
        if columns.start == columns.stop:
            continue
        here = (grad.columns >= columns.start) & (grad.columns < columns.stop)
        j, value = torch.where(here, grad.columns - columns.start, 0), torch.where(here, grad.values, 0).unsqueeze(1)
        of_keys = None if objective.one_sided else accumulator.get(source)
        if accumulator.like[view] is not None:
            accumulator.add(view, grad.block, apply_metric(objective, rows[source][j]) * value)
        if of_keys is not None:
            of_keys.index_add_(0, j, apply_metric(objective, rows[view][grad.block]) * value)
