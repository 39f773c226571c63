"""One visit to all anchors, block by block: statistics out, gradients of chosen totals accumulated.

A block of anchors has its similarities computed, is cut into thin strips, and each strip is a small autograd graph
of its own: similarities as leaves, the objective's ``block``, the gradient with respect to the strip. The gradient
overwrites the similarities, two matrix products add it to the gradients of the embeddings, the block is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, Turn, positives, turns, weighed
from hypersphere.engine.blocks import Pieces, matrices_in, rows_in_cache, sizes, slices
from hypersphere.engine.contract import Evaluable, Statistics
from hypersphere.engine.listed import BlockSlope, Few, Listed, differentiated_once
from hypersphere.engine.memory import BLOCK, kept_memory
from hypersphere.engine.processes import exchange, gather_rows
from hypersphere.engine.reduce import finish
from hypersphere.engine.slopes import slopes_of
from hypersphere.engine.sums import LogSums, log_sums_of, sweep_sums
from hypersphere.engine.target import Target, Weights

Key = tuple[int, int]  # of a target and a matrix
T = TypeVar("T")


@dataclass
class Plan:
    """What one evaluation needs beside its tensors; ``names`` says what came out."""

    objective: Evaluable
    labels: Tensor | None
    parts: bool
    block_rows: int | None
    parameters: list[torch.nn.Parameter]
    grad: bool  # whether anything is to be differentiated at all
    names: list[str] = field(default_factory=list)
    sums: LogSums | None = field(init=False)

    def __post_init__(self) -> None:
        self.sums = log_sums_of(self.objective)

    def target(self, batch: Batch, weights: list[Weights], needs: tuple[bool, ...]) -> Target:
        like = [h if need else None for h, need in zip_longest(batch.rows, needs)]
        positives = [batch.rows[0].new_zeros(batch.share.size) for _ in turns(self.objective, batch)]
        exact = [torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32)) for p in self.parameters]
        target = Target(weights, like, positives, exact)
        if len(batch.share.sizes) > 1:  # all processes must have the same to sum up
            for index in range(len(like)):
                target.gradient(index)
        return target

    def sweep(self, batch: Batch, targets: list[Target], once: bool | None = None) -> list[Statistics]:
        """Visits all of this process's anchors once; adds to the targets' gradients; statistics by turn.

        once: no operation on the matrices serves two targets; if not said, that is so if there is one.
        """
        return together(batch, lambda: self._sweep(batch, targets, len(targets) < 2 if once is None else once))

    def _sweep(self, batch: Batch, targets: list[Target], once: bool) -> list[Statistics]:
        order = turns(self.objective, batch)
        columns = [order[0].columns(read) for read in self.objective.reads]  # no turn has more
        rows, strip = self.rows(columns, 1 if once or self.sums is not None else len(targets))
        if not columns:  # an objective of the rows alone
            strip = min(strip, rows_in_cache(batch.rows[0]))
        held = min(rows, batch.share.size)
        with kept_memory() as lend:
            memory = lend(BLOCK, batch.rows[0], held * sum(columns))
            found = []
            for index, turn in enumerate(order):
                matrices = matrices_in(memory, held, [turn.columns(read) for read in self.objective.reads])
                found.append(self._sweep_turn(turn, index, targets, once, Pieces(rows, strip, matrices)))
            return found

    def moving_statistics(self, batch: Batch) -> dict[str, bool]:
        """The statistics that carry a gradient, and whether through anything but the positives: found out on one
        anchor."""
        return together(batch, lambda: self._moving_statistics(batch))

    def _moving_statistics(self, batch: Batch) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for turn in turns(self.objective, batch):
            context = self.objective.prepare(batch.rows[turn.anchor], batch.rows[turn.other])
            strip = slice(batch.share.start, batch.share.start + min(1, batch.share.size))
            strips = [batch.rows[0].new_empty(strip.stop - strip.start, turn.columns(r)) for r in self.objective.reads]
            self._products(turn, strip, strips)
            statistics, leaves, _ = self._graph(turn, strip, strips, context, grad=True, once=False, scratch=[])
            for name, value in statistics.items():
                if value.requires_grad:
                    slopes = slopes_of([(value, torch.ones_like(value))], [*leaves[:2], *leaves[3:]], retain=True)
                    found[name] = found.get(name, False) or any(slope is not None for slope in slopes)
        return found

    def everybody(self, batch: Batch, statistics: list[Statistics]) -> list[Statistics]:
        """The statistics of all processes' anchors."""
        return [{name: gather_rows(v, batch.share) for name, v in turn.items()} for turn in statistics]

    def finish(self, statistics: list[Statistics]) -> Statistics:
        found = finish(self.objective, statistics)
        return found if self.parts else {"loss": found["loss"]}

    def _sweep_turn(self, turn: Turn, index: int, targets: list[Target], once: bool, pieces: Pieces) -> Statistics:
        if self.sums is not None:
            return sweep_sums(self, self.sums, turn, index, targets, pieces)
        batch, objective = turn.batch, self.objective
        active = [target for target in targets if target.weights[index]]
        context = objective.prepare(batch.rows[turn.anchor], batch.rows[turn.other])
        found: Statistics = {}
        copies: dict[Key, Tensor] = {}
        scratch: list[Tensor] = []
        start, stop = batch.share.start, batch.share.start + batch.share.size
        for block in slices(start, stop, pieces.rows):
            matrices = [matrix[: block.stop - block.start] for matrix in pieces.matrices]
            self._products(turn, block, matrices)
            slopes_in: dict[Key, BlockSlope] = {}
            for strip in slices(block.start, block.stop, pieces.strip):
                inside = slice(strip.start - block.start, strip.stop - block.start)
                strips = [matrix[inside] for matrix in matrices]
                out, leaves, listed = self._graph(turn, strip, strips, context, bool(active), once, scratch)
                local = slice(strip.start - start, strip.stop - start)
                for name, value in out.items():
                    # Copied out: it may be a view of the block, and small tensors that stay would scatter the heap.
                    found.setdefault(name, value.new_empty(batch.share.size))[local] = value.detach()
                for number, target in enumerate(active):
                    last = number == len(active) - 1
                    slopes = slopes_of(target.weighed(out, index, local), [*leaves, *self.parameters], retain=not last)
                    self.keep(turn, strip, target, slopes[:2], slopes[3 + len(matrices) :])
                    if slopes[2] is not None:
                        target.positives[index][local] = slopes[2]
                    for place, slope in enumerate(slopes[3 : 3 + len(matrices)]):
                        # The last target's slopes overwrite the similarities themselves.
                        memory = partial(_memory, matrices[place], None if last else copies, (number, place))
                        of_block = slopes_in.setdefault((number, place), BlockSlope(memory))
                        of_block.add(inside, slope, listed[place])
                        listed[place].clear()
            for (number, place), of_block in slopes_in.items():
                of_block.settle(block.stop - block.start)
                if of_block.matrix is not None:
                    self._accumulate(turn, block, active[number], place, of_block.matrix)
                elif of_block.few:
                    self._accumulate_few(turn, block, active[number], place, of_block.few)
        return found

    def rows(self, columns: list[int], copies: int = 1) -> tuple[int, int]:
        """Rows of a block, of all of whose matrices there are so many copies in memory, and of a strip."""
        return (self.block_rows, self.block_rows) if self.block_rows else sizes(columns, copies)

    def _products(self, turn: Turn, block: slice, matrices: list[Tensor]) -> None:
        for read, matrix in zip(self.objective.reads, matrices, strict=True):
            row, columns = turn.sources(read)
            rows = weighed(self.objective, turn.batch.rows[row][block])
            for part, place in turn.parts(columns):
                torch.mm(rows, turn.batch.rows[part].T, out=matrix[:, place])

    def _graph(
        self,
        turn: Turn,
        strip: slice,
        strips: list[Tensor],
        context: Any,
        grad: bool,
        once: bool,
        scratch: list[Tensor],
    ) -> tuple[Statistics, list[Tensor], list[Listed]]:
        with torch.set_grad_enabled(grad):
            x, y = (turn.batch.rows[view][strip].detach() for view in (turn.anchor, turn.other))
            with torch.no_grad():
                positive = positives(self.objective, x, y)
            leaves = [x, y, positive, *(s.detach() for s in strips)]
            if grad:
                moving = [True, self.objective.positives_move, True]
                moving += [
                    not self.objective.one_sided or turn.sources(read)[0] == turn.anchor
                    for read in self.objective.reads
                ]
                leaves = [leaf.requires_grad_(moves) for leaf, moves in zip(leaves, moving, strict=True)]
            anchors = turn.anchors(self.objective, strip, x, y, leaves[3:], context, positive)
            with differentiated_once(leaves[3:], once, scratch) as listed:
                return self.objective.block(anchors), leaves, listed

    def keep(
        self, turn: Turn, strip: slice, target: Target, rows: list[Tensor | None], slopes: list[Tensor | None]
    ) -> None:
        """Adds the gradients of the anchors' own rows and of the objective's parameters."""
        for view, slope in zip((turn.anchor, turn.other), rows, strict=True):
            if slope is not None:
                target.add(view, strip, slope)
        target.add_to_parameters(slopes)

    def _accumulate(self, turn: Turn, block: slice, target: Target, matrix: int, slope: Tensor) -> None:
        """The two products that carry a block's ∂L/∂S to the embeddings on both of its sides."""
        row, columns = turn.sources(self.objective.reads[matrix])
        rows, plain = weighed(self.objective, turn.batch.rows[row][block]), self.objective.metric(slope) is None
        for part, place in turn.parts(columns):
            if plain:
                target.add_product(row, block, slope[:, place], turn.batch.rows[part])
            elif target.like[row] is not None:
                target.add(row, block, weighed(self.objective, slope[:, place] @ turn.batch.rows[part]))
            if not self.objective.one_sided:
                target.add_product(part, slice(0, place.stop - place.start), slope[:, place].T, rows)

    def _accumulate_few(self, turn: Turn, block: slice, target: Target, matrix: int, few: list[Few]) -> None:
        """The same for a ∂L/∂S that is 0 but at a few places."""
        row, columns = turn.sources(self.objective.reads[matrix])
        line, column = torch.cat([each.rows for each in few]), torch.cat([each.columns for each in few])
        value = torch.cat([each.values for each in few])
        for part, place in turn.parts(columns):
            anchors = target.gradient(row)
            keys = None if self.objective.one_sided else target.gradient(part)
            here = (column >= place.start) & (column < place.stop)
            i, j, slope = line[here] + block.start, column[here] - place.start, value[here].unsqueeze(1)
            if anchors is not None:
                anchors.index_add_(0, i, weighed(self.objective, turn.batch.rows[part][j]) * slope)
            if keys is not None:
                keys.index_add_(0, j, weighed(self.objective, turn.batch.rows[row][i]) * slope)


def _memory(matrix: Tensor, copies: dict[Key, Tensor] | None, key: Key) -> Tensor:
    """That of the matrix itself, or of a copy of its own that is kept for later blocks, which are not larger."""
    if copies is None:
        return matrix
    if key not in copies:
        copies[key] = torch.empty_like(matrix)
    return copies[key][: len(matrix)]


def together(batch: Batch, work: Callable[[], T]) -> T:
    """Does what takes no other process, and waits until all have done it."""
    result = work()
    if len(batch.share.sizes) > 1:
        exchange([])
    return result
