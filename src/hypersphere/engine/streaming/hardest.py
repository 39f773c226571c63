"""Loop 2, for objectives that see only the hardest negative of each anchor: one product, and one entry of ∂S a row.

The engine takes the argmax itself. The formula sees the largest similarity h_i = s_i,j(i) of each anchor as a leaf, and
∂L/∂S is ∂L/∂h_i at (i, j(i)) and 0 elsewhere, so that no product is needed to carry it to the embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from hypersphere.engine.batch import Direction, apply_metric, positives
from hypersphere.engine.mask import fill_entries
from hypersphere.engine.objective import PairContract, Read, Statistics
from hypersphere.engine.reductions import argmax
from hypersphere.engine.streaming.accumulate import GradAccumulator, block_sizes, cut, grads_of, record, slices
from hypersphere.geometry.near import with_vectors


@dataclass(frozen=True)
class SparseGrad:
    """∂L/∂S of a block of rows with one entry in each."""

    block: slice
    columns: Tensor  # (B,) -1: the row has no entry
    values: Tensor  # (B,)


def sweep(
    objective: PairContract, direction: Direction, accumulators: Sequence[GradAccumulator], block_rows: int | None
) -> Statistics:
    """Visits this process's anchors once: returns their statistics, adds to the accumulators' gradients."""
    batch, shard = direction.batch, direction.batch.shard
    context = objective.prepare(batch.rows[direction.anchor], batch.rows[direction.other])
    parameters = list(objective.parameters())
    active = [each for each in accumulators if each.weights[direction.anchor]]
    widths = [direction.num_columns(read) for read in objective.reads]
    rows, _ = block_sizes([max(widths)], block_rows, batch.rows[0].device)
    memory = batch.rows[0].new_empty(min(rows, shard.size), max(widths))
    statistics: Statistics = {}
    for block in slices(shard.start, shard.stop, rows):
        views = direction.views(block)
        # 1. Similarities of the block, one matrix after the other, and the largest of each row.
        largest = [_hardest(objective, direction, read, block, memory) for read in objective.reads]
        hardest, columns = tuple(value for value, _ in largest), [column for _, column in largest]
        # 2. The formula, as a small autograd graph.
        with torch.set_grad_enabled(bool(active)):
            positive = positives(objective, views[direction.anchor], views[direction.other])
            leaves = [*views, positive, *hardest]
            for leaf, moves in zip(leaves, direction.moving(objective), strict=True):
                leaf.requires_grad_(moves and bool(active))
            anchors = direction.anchors(objective, block, views, positive, [], context)
            out = objective.block_from_hardest(anchors, hardest)
        record(statistics, out, direction.local(block), shard.size)
        for number, each in enumerate(active):
            # 3. ∂S: the gradient of the hardest similarity, at its column.
            retain = number < len(active) - 1
            grads = grads_of(each.weighted(out, direction, block), [*leaves, *parameters], retain)
            of_anchors, of_hardest, of_parameters = cut(grads, batch.num_views + 1, len(hardest))
            each.add_of_anchors(direction, block, of_anchors)
            each.add_to_parameters(of_parameters)
            # 4. ∂X, ∂Y: one row added for each entry.
            for read, column, grad in zip(objective.reads, columns, of_hardest, strict=True):
                if grad is not None:
                    _accumulate(objective, direction, read, SparseGrad(block, column, grad), each)
    return statistics


def _hardest(
    objective: PairContract, direction: Direction, read: Read, block: slice, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest similarity (B,) of each anchor with a negative, and its column (B,); -inf, -1 if none."""
    row, _ = direction.sources(read)
    rows = apply_metric(objective, direction.batch.rows[row][block])
    width = direction.num_columns(read)
    matrix = memory.flatten()[: len(rows) * width].view(len(rows), width)
    for part, place in direction.columns(read):
        torch.mm(rows, direction.batch.rows[part].T, out=matrix[:, place])
    fill_entries(matrix, direction.excluded(read, block), -inf)
    column = argmax(matrix)
    largest = matrix.gather(1, column).squeeze(1)
    if objective.rows is None and objective.metric(rows) is None:
        nearest = direction.distances(read, block).nearest(matrix, largest)
        if nearest is not None:  # so near that distances decide which is the nearest
            column[nearest.lines] = nearest.columns
            largest = with_vectors(matrix.gather(1, column).squeeze(1), nearest)
    return largest, torch.where(largest > -inf, column.squeeze(1), -1)


def _accumulate(
    objective: PairContract, direction: Direction, read: Read, grad: SparseGrad, accumulator: GradAccumulator
) -> None:
    """∂x_i += ∂s_ij y_j and ∂y_j += ∂s_ij x_i for every entry (i, j).

    An entry in the columns of another part adds 0 times some row: to pick those of this part, a device would have to
    report how many they are.
    """
    row, _ = direction.sources(read)
    rows = direction.batch.rows
    for part, place in direction.columns(read):
        if place.start == place.stop:
            continue
        here = (grad.columns >= place.start) & (grad.columns < place.stop)
        j, value = torch.where(here, grad.columns - place.start, 0), torch.where(here, grad.values, 0).unsqueeze(1)
        of_keys = None if objective.one_sided else accumulator.get(part)
        if accumulator.like[row] is not None:
            accumulator.add(row, grad.block, apply_metric(objective, rows[part][j]) * value)
        if of_keys is not None:
            of_keys.index_add_(0, j, apply_metric(objective, rows[row][grad.block]) * value)
