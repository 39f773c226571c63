"""Loop 1, for objectives that see only log Σ_j exp(scale · s_ij) of their negatives.

One pass replaces the similarities by their exponentials e_ij and sums them. The exponentials are multiplied with the
embeddings as they are; the weights of the anchors, w_i = scale · ∂L/∂logsumexp_i / Σ_j e_ij, go to the small side:
∂L/∂x_i = w_i Σ_j e_ij y_j and ∂L/∂y_j = Σ_i e_ij (w_i x_i).

Where a matrix is symmetric (of one view with itself, or of two views that are anchors in turn), each pair of rows is
computed once and serves both of its rows. A first visit computes the sums of all rows. All weights follow from them,
coupled or not. A second visit carries the gradient to both rows of every pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, Direction, directions, positives
from hypersphere.engine.groups import Groups
from hypersphere.engine.mask import fill_entries
from hypersphere.engine.objective import SMALLEST, PairContract, Read, Scale, Statistics, reduce_anchors
from hypersphere.engine.streaming.accumulate import (
    GradAccumulator,
    block_sizes,
    cut,
    grads_of,
    grads_of_value,
    record,
    slices,
    strips_in_cache,
)


def visit(
    objective: PairContract,
    direction: Direction,
    accumulators: Sequence[GradAccumulator],
    block_rows: int | None,
    scale: Scale,
) -> Statistics:
    """Visits this process's anchors once: returns their statistics, adds to the accumulators' gradients."""
    batch, shard = direction.batch, direction.batch.shard
    context = objective.prepare(batch.rows[direction.anchor], batch.rows[direction.positive_view])
    parameters = list(objective.parameters())
    active = [each for each in accumulators if each.weights[direction.anchor]]
    widths = [direction.num_columns(read) for read in direction.reads]
    rows, _ = block_sizes(widths, block_rows, batch.rows[0].device)
    memory = [batch.rows[0].new_empty(min(rows, shard.size), width) for width in widths]
    statistics: Statistics = {}
    for block in slices(shard.start, shard.stop, rows):
        views = direction.views(block)
        # 1. Similarities, exponentials and their sums.
        powers = [matrix[: block.stop - block.start] for matrix in memory]
        totals = [_sums(direction, read, block, m, scale) for read, m in zip(direction.reads, powers, strict=True)]
        sums, own, num_negatives = [total for total, _, _ in totals], totals[0][1], tuple(num for _, _, num in totals)
        # 2. The formula, as a small autograd graph. The own instance of "cross" and "both" is the positive.
        of_cross = batch.in_batch and direction.reads[0] in ("cross", "both")
        positive = own if of_cross else positives(objective, views[direction.anchor], views[direction.positive_view])
        with torch.set_grad_enabled(bool(active)):
            logsumexp = tuple(total.log() for total in sums)
            leaves = [*views, positive, *logsumexp]
            # Sums that move no row may still move a learned scale.
            moving = [*direction.moving(objective)[: len(views)], *(True for _ in leaves[len(views) :])]
            for leaf, moves in zip(leaves, moving, strict=True):
                leaf.requires_grad_(moves and bool(active))
            anchors = direction.anchors(objective, block, views, positive, [], context)
            out = objective.block_from_logsumexp(anchors, logsumexp, num_negatives)
        record(statistics, out, shard.within(block), shard.size)
        for accumulator in active:
            grads = grads_of(accumulator.weighted(out, direction, block), [*leaves, *parameters], retain=True)
            of_anchors, of_logsumexp, of_parameters = cut(grads, batch.num_views + 1, len(sums))
            accumulator.add_of_anchors(direction, block, of_anchors)
            accumulator.add_to_parameters(of_parameters)
            for read, matrix, total, grad in zip(direction.reads, powers, sums, of_logsumexp, strict=True):
                if grad is not None:
                    # 3. ∂S = weight_i e_ij: the weights.
                    weight = (grad * scale.value / total.clamp_min(SMALLEST)).unsqueeze(1)
                    # 4. ∂X, ∂Y: two products of the exponentials.
                    _accumulate(objective, scale, direction, read, block, accumulator, matrix, weight)
    return statistics


def _scaled_similarities(rows: Tensor, keys: Tensor, scale: Scale, out: Tensor) -> None:
    """scale · row·key of every pair: (B, D), (M, D) -> (B, M)."""
    torch.addmm(out, rows, keys.T, beta=0, alpha=scale.value, out=out)


def _sums(
    direction: Direction, read: Read, block: slice, powers: Tensor, scale: Scale
) -> tuple[Tensor, Tensor, Tensor]:
    """Fills a block with exp(scale · s), 0 where a column is no negative. Returns the sums of its rows, (B, M) -> (B,),
    the similarities with the own instances (B,), which the zeros replace, and the numbers of negatives (B,)."""
    view, _ = direction.sources(read)
    for source, columns in direction.columns(read):
        keys = direction.batch.rows[source]
        _scaled_similarities(direction.batch.rows[view][block], keys, scale, powers[:, columns])
    of_own = powers.diagonal(block.start) / scale.value
    excluded = direction.excluded(read, block)
    fill_entries(powers, excluded, -inf)
    total = powers.new_empty(len(powers))
    for strip in strips_in_cache(powers):
        torch.sum(powers[strip].exp_(), dim=1, out=total[strip])
    return total, of_own, direction.num_negatives(read, block, excluded)


def _accumulate(
    objective: PairContract,
    scale: Scale,
    direction: Direction,
    read: Read,
    block: slice,
    accumulator: GradAccumulator,
    powers: Tensor,
    weight: Tensor,
) -> None:
    """∂X += w ⊙ (E Y) and ∂Y += Eᵀ (w ⊙ X); and ∂scale = Σ_ij w_i e_ij s_ij / scale, if it is learned."""
    view, _ = direction.sources(read)
    moves = view == direction.anchor or not objective.one_sided
    rows = direction.batch.rows[view][block]
    for source, columns in direction.columns(read):
        keys = direction.batch.rows[source]
        if scale.learned:  # Σ_j w_i e_ij s_ij = x_i · Σ_j w_i e_ij y_j
            grad = torch.mm(powers[:, columns], keys).mul_(weight)
            along_scale = (grad * rows).sum() / scale.value
            accumulator.add_to_parameters(_grads_of_scale(scale, along_scale, list(objective.parameters())))
            if moves:
                accumulator.add(view, block, grad)
        elif moves:
            accumulator.add_product(view, block, powers[:, columns], keys, weight)
        if not objective.one_sided:
            accumulator.add_product(source, slice(0, len(keys)), powers[:, columns].T, rows * weight)


def _grads_of_scale(scale: Scale, along_scale: Tensor, parameters: Sequence[torch.nn.Parameter]) -> list[Tensor | None]:
    """The gradients of the parameters that a learned scale is made of, from ∂L/∂scale."""
    assert isinstance(scale.tensor, Tensor)
    upstream = along_scale.reshape(scale.tensor.shape).to(scale.tensor)
    return grads_of([(scale.tensor, upstream)], parameters, retain=True)


# -------------------------------------------------------------------------------------------------- symmetric matrices


def is_symmetric(objective: PairContract, batch: Batch) -> bool:
    """Whether each pair of rows counts alike for both of them, and all rows are on this process."""
    reads = objective.reads
    within = all(read in ("same", "other") for read in reads)
    between = reads in (("cross",), ("both",)) and objective.anchors == "both"
    alone = batch.shard.world_size == 1 and not batch.has_extra
    return alone and batch.guide is None and not objective.one_sided and (within or between)


@dataclass(frozen=True)
class Tile:
    """Pairs of some rows of a view with some rows of the same or the other view."""

    view: int
    rows: slice
    other: int
    columns: slice
    shared: int  # so many of the first columns are the rows themselves: there each pair is met twice

    def fill(self, batch: Batch, scale: Scale, memory: Tensor) -> Tensor:
        """scale · s of these pairs, -inf for a row with its own instance and those of equal ids."""
        rows, keys = batch.rows[self.view][self.rows], batch.rows[self.other][self.columns]
        out = memory[: len(rows) * len(keys)].view(len(rows), len(keys))
        _scaled_similarities(rows, keys, scale, out)
        out[:, self.rows.start - self.columns.start :].fill_diagonal_(-inf)
        if batch.ids is not None:
            keys, of_columns = batch.ids.keys[self.rows], Groups(batch.ids.keys[self.columns])
            fill_entries(out, of_columns.members(keys) if out.is_cpu else of_columns.equal(keys), -inf)
        return out


def differentiate_symmetric(
    objective: PairContract, scale: Scale, batch: Batch, accumulator: GradAccumulator, block_rows: int | None
) -> Statistics:
    """The reduced loss; adds its gradients to the accumulator, which must hold all views if the scale is learned."""
    block_rows, _ = block_sizes([batch.size], block_rows, batch.rows[0].device)
    memory = batch.rows[0].new_empty(min(block_rows, batch.size) * batch.size)
    tiles, parameters = list(_tiles(objective, batch, block_rows)), list(objective.parameters())
    # 1. Similarities, exponentials and their sums, by view.
    sums = _sums_of_all(batch, scale, tiles, memory)
    # 2. The formula for all anchors at once, combined and reduced.
    leaves = {view: total.log().requires_grad_() for view, total in sums.items()}
    views = [rows.detach().requires_grad_() for rows in batch.rows[:-1]]
    all_directions = directions(objective, batch)
    positive = [
        positives(objective, batch.rows[each.anchor].detach(), batch.rows[each.positive_view].detach()).requires_grad_()
        for each in all_directions
    ]
    with torch.enable_grad():
        statistics = [
            _statistics_of_all(objective, each, views, own, leaves)
            for each, own in zip(all_directions, positive, strict=True)
        ]
        values = reduce_anchors(objective, statistics)
    # 3. ∂S_ij = (weight_i + weight_j) e_ij: the weights, by view.
    grads = grads_of_value(values["loss"], [*views, *positive, *leaves.values(), *parameters])
    of_views, of_positive, of_logsumexp, of_parameters = cut(grads, len(views), len(positive), len(leaves))
    weights = {
        view: grad * scale.value / sums[view].clamp_min(SMALLEST)
        for view, grad in zip(leaves, of_logsumexp, strict=True)
        if grad is not None
    }
    # 4. ∂X, ∂Y: two products for each tile.
    if weights:
        _accumulate_tiles(batch, scale, tiles, memory, weights, accumulator)
    if weights and scale.learned:  # every pair has moved both of its rows
        moved = [(accumulator.get(view), rows) for view, rows in enumerate(batch.rows[:-1])]
        along_scale = torch.stack([(grad * rows).sum() for grad, rows in moved if grad is not None]).sum()
        accumulator.add_to_parameters(_grads_of_scale(scale, along_scale / (2 * scale.value), parameters))
    accumulator.add_to_parameters(of_parameters)
    for total, grad in zip(accumulator.positives, of_positive, strict=True):
        if grad is not None:
            total += grad
    for view, grad in enumerate(of_views):  # of an objective that reads the rows themselves
        if grad is not None:
            accumulator.add(view, slice(0, batch.size), grad)
    return values


def _tiles(objective: PairContract, batch: Batch, block_rows: int) -> Iterator[Tile]:
    views = {each.sources(read)[0] for each in directions(objective, batch) for read in objective.reads}
    blocks = list(slices(0, batch.size, block_rows))
    if objective.reads != ("cross",):
        for view in sorted(views):
            for rows in blocks:
                yield Tile(view, rows, view, slice(rows.start, batch.size), rows.stop - rows.start)
    if objective.reads in (("cross",), ("both",)):
        for view, other in combinations(range(batch.num_views), 2):
            for rows in blocks:
                yield Tile(view, rows, other, slice(0, batch.size), 0)


def _sums_of_all(batch: Batch, scale: Scale, tiles: Sequence[Tile], memory: Tensor) -> dict[int, Tensor]:
    """Σ_j exp(scale · s_ij) of every row i, by view."""
    views = sorted({view for tile in tiles for view in (tile.view, tile.other)})
    sums = {view: memory.new_zeros(batch.size) for view in views}
    for tile in tiles:
        powers = tile.fill(batch, scale, memory)
        of_rows, of_columns = sums[tile.view][tile.rows], sums[tile.other][tile.columns][tile.shared :]
        for strip in strips_in_cache(powers):
            part = powers[strip].exp_()
            of_rows[strip] += part.sum(dim=1)
            of_columns += part[:, tile.shared :].sum(dim=0)
    return sums


def _statistics_of_all(
    objective: PairContract,
    direction: Direction,
    views: Sequence[Tensor],
    positive: Tensor,
    leaves: dict[int, Tensor],
) -> Statistics:
    """The statistics of all anchors of a direction."""
    with torch.no_grad():
        context = objective.prepare(views[direction.anchor].detach(), views[direction.positive_view].detach())
    anchors = direction.anchors(objective, slice(0, len(positive)), views, positive, [], context)
    logsumexp = tuple(leaves[direction.sources(read)[0]] for read in direction.reads)
    num_negatives = tuple(direction.num_by_ids(read, anchors.block) for read in direction.reads)
    return objective.block_from_logsumexp(anchors, logsumexp, num_negatives)


def _accumulate_tiles(
    batch: Batch,
    scale: Scale,
    tiles: Sequence[Tile],
    memory: Tensor,
    weights: dict[int, Tensor],
    accumulator: GradAccumulator,
) -> None:
    """∂x_i += (weight_i + weight_j) e_ij x_j and ∂x_j += (weight_i + weight_j) e_ij x_i."""
    zero = memory.new_zeros(batch.size)
    for tile in tiles:
        if accumulator.like[tile.view] is None and accumulator.like[tile.other] is None:
            continue
        powers = tile.fill(batch, scale, memory)
        of_rows = weights.get(tile.view, zero)[tile.rows].unsqueeze(1)
        of_columns = weights.get(tile.other, zero)[tile.columns]
        for strip in strips_in_cache(powers):
            powers[strip].exp_().mul_(of_rows[strip] + of_columns)
        accumulator.add_product(tile.view, tile.rows, powers, batch.rows[tile.other][tile.columns])
        if tile.shared < powers.shape[1]:
            rest = slice(tile.columns.start + tile.shared, tile.columns.stop)
            accumulator.add_product(tile.other, rest, powers[:, tile.shared :].T, batch.rows[tile.view][tile.rows])
