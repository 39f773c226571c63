"""Sums of exponentials over a symmetric matrix: of one view with itself, or of two views that take turns.

Every pair of rows is visited once, as a row of one block and as a column of it. A first visit adds up the sums of all
rows; then all that follows from them is known, coupled or not; a second one carries the gradient to both rows of every
pair. That is four products for the two matrices of two views that take turns, and two for a view with itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, positives, turns
from hypersphere.engine.blocks import slices, strips_in_cache
from hypersphere.engine.contract import Evaluable, Statistics
from hypersphere.engine.memory import BLOCK, kept_memory
from hypersphere.engine.slopes import itself, slopes_of
from hypersphere.engine.sums import SMALLEST, LogSums, scaled_similarities
from hypersphere.engine.sweep import Plan
from hypersphere.engine.target import Target


def is_symmetric(objective: Evaluable, batch: Batch) -> bool:
    """Whether a pair counts for both of its rows alike, and all rows are here."""
    within = all(read in ("same", "other") for read in objective.reads)
    between = objective.reads in (("cross",), ("both",)) and objective.anchors == "both"
    alone = len(batch.share.sizes) == 1 and not len(batch.rows[2])
    return alone and not objective.one_sided and (within or between)


@dataclass(frozen=True)
class Tile:
    """Pairs of some rows of a view with some of the same or the other view."""

    view: int
    rows: slice
    other: int
    columns: slice
    shared: int  # so many of the first columns are the rows themselves: there each pair is met twice

    def fill(self, batch: Batch, sums: LogSums, memory: Tensor) -> Tensor:
        """scale · s of these pairs, -inf for a row with its own instance."""
        rows, keys = batch.rows[self.view][self.rows], batch.rows[self.other][self.columns]
        out = memory[: len(rows) * len(keys)].view(len(rows), len(keys))
        scaled_similarities(rows, [keys], sums, out)
        out[:, self.rows.start - self.columns.start :].fill_diagonal_(-torch.inf)
        return out


def _tiles(objective: Evaluable, batch: Batch, block_rows: int) -> Iterator[Tile]:
    size = batch.size
    views = {turn.sources(read)[0] for turn in turns(objective, batch) for read in objective.reads}
    if objective.reads != ("cross",):
        for view in sorted(views):
            for rows in slices(0, size, block_rows):
                yield Tile(view, rows, view, slice(rows.start, size), rows.stop - rows.start)
    if objective.reads in (("cross",), ("both",)):
        for rows in slices(0, size, block_rows):
            yield Tile(0, rows, 1, slice(0, size), 0)


def differentiate_symmetric(
    plan: Plan, sums: LogSums, batch: Batch, needs: tuple[bool, ...]
) -> tuple[Statistics, list[Target]]:
    """The loss and its gradients."""
    rows, _ = plan.rows([batch.size])
    with kept_memory() as lend:
        memory = lend(BLOCK, batch.rows[0], min(rows, batch.size) * batch.size)
        return _differentiate(plan, sums, batch, needs, list(_tiles(plan.objective, batch, rows)), memory)


def _differentiate(
    plan: Plan, sums: LogSums, batch: Batch, needs: tuple[bool, ...], tiles: list[Tile], memory: Tensor
) -> tuple[Statistics, list[Target]]:
    totals = _totals(batch, sums, tiles, memory)
    leaves = {view: total.log().requires_grad_() for view, total in totals.items()}
    rows = [h.detach().requires_grad_() for h in batch.rows[:2]]
    positive = positives(plan.objective, *(h.detach() for h in rows)).requires_grad_()
    with torch.enable_grad():
        values = plan.finish(_answers(plan, sums, batch, rows, positive, leaves))
    slopes = slopes_of(itself(values["loss"]), [*rows, positive, *leaves.values(), *plan.parameters], retain=True)
    target = plan.target(batch, [], (True, True, False) if sums.learned else needs)
    if slopes[2] is not None:
        target.positives[0].add_(slopes[2])
    target.add_to_parameters(slopes[3 + len(leaves) :])
    weights = {
        view: slope * sums.number / totals[view].clamp_min(SMALLEST)
        for view, slope in zip(leaves, slopes[3 : 3 + len(leaves)], strict=True)
        if slope is not None
    }
    if weights:
        _carry(batch, sums, tiles, memory, weights, target)
    if weights and sums.learned:  # every pair has moved both of its rows
        moved = [(target.found(index), h) for index, h in enumerate(batch.rows)]
        along = [(slope * h).sum() for slope, h in moved if slope is not None]
        target.add_to_parameters(sums.slopes(torch.stack(along).sum() / (2 * sums.number), plan.parameters))
    for view, slope in enumerate(slopes[:2]):  # of an objective that looks at the rows themselves
        if slope is not None:
            target.add(view, slice(0, batch.size), slope)
    return values, [target]


def _answers(
    plan: Plan, sums: LogSums, batch: Batch, rows: list[Tensor], positive: Tensor, leaves: dict[int, Tensor]
) -> list[Statistics]:
    """The objective's statistics of all anchors, by turn."""
    found = []
    for turn in turns(plan.objective, batch):
        x, y = (rows[view] for view in (turn.anchor, turn.other))
        with torch.no_grad():
            context = plan.objective.prepare(x.detach(), y.detach())
        columns = turn.columns(plan.objective.reads[0])
        number = torch.full((batch.size,), columns - turn.own_columns(columns), device=x.device)
        anchors = turn.anchors(plan.objective, slice(0, batch.size), x, y, [], context, positive)
        known = [leaves[turn.sources(read)[0]] for read in plan.objective.reads]
        found.append(sums.answer(anchors, known, number))
    return found


def _totals(batch: Batch, sums: LogSums, tiles: list[Tile], memory: Tensor) -> dict[int, Tensor]:
    """Σ_j exp(scale · s_ij) of every row i of the views concerned, by view."""
    views = sorted({view for tile in tiles for view in (tile.view, tile.other)})
    totals = {view: memory.new_zeros(batch.size) for view in views}
    for tile in tiles:
        powers = tile.fill(batch, sums, memory)
        of_rows, of_columns = totals[tile.view][tile.rows], totals[tile.other][tile.columns][tile.shared :]
        for strip in strips_in_cache(powers):
            part = powers[strip].exp_()
            of_rows[strip] += part.sum(dim=1)
            of_columns += part[:, tile.shared :].sum(dim=0)
    return totals


def _carry(
    batch: Batch,
    sums: LogSums,
    tiles: list[Tile],
    memory: Tensor,
    weights: dict[int, Tensor],
    target: Target,
) -> None:
    """Adds (weight_i + weight_j) exp(scale · s_ij) times either row to the gradient of the other."""
    none = memory.new_zeros(batch.size)
    for tile in tiles:
        if target.like[tile.view] is None and target.like[tile.other] is None:
            continue
        powers = tile.fill(batch, sums, memory)
        of_rows = weights.get(tile.view, none)[tile.rows].unsqueeze(1)
        of_columns = weights.get(tile.other, none)[tile.columns]
        for strip in strips_in_cache(powers):
            powers[strip].exp_().mul_(of_rows[strip] + of_columns)
        target.add_product(tile.view, tile.rows, powers, batch.rows[tile.other][tile.columns])
        if tile.shared < powers.shape[1]:
            rest = slice(tile.columns.start + tile.shared, tile.columns.stop)
            target.add_product(tile.other, rest, powers[:, tile.shared :].T, batch.rows[tile.view][tile.rows])
