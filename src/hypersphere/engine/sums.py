"""Sweeps for objectives that see nothing of their negatives but log Σ exp(scale · s).

Exponentials take the place of the similarities, one pass and one sum, and are multiplied with the embeddings as they
are; what each anchor counts goes to the small side: ∂L/∂x_i = w_i Σ_j e_ij y_j and ∂L/∂y_j = Σ_i e_ij (w_i x_i).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hypersphere.engine.batch import Turn, positives
from hypersphere.engine.blocks import Pieces, slices, strips_in_cache
from hypersphere.engine.contract import Anchors, Evaluable, Read, Statistics
from hypersphere.engine.slopes import slopes_of

if TYPE_CHECKING:
    from hypersphere.engine.sweep import Plan
    from hypersphere.engine.target import Target

# Up to this scale exponentials of scaled cosines, and sums of very many, stay far from the ends of float32.
LARGEST_SCALE = 40.0

# An anchor without negatives has a sum of 0, and nothing to divide by it.
SMALLEST = torch.finfo(torch.float32).tiny

OfSums = Callable[[Anchors, Sequence[Tensor], Tensor], Statistics]


@dataclass(frozen=True)
class LogSums:
    """What an objective says of itself: the scale, and what it answers when it is told the logarithms of the sums."""

    scale: Tensor | float
    answer: OfSums
    number: float  # the scale's value, read from its device once

    @property
    def learned(self) -> bool:
        return isinstance(self.scale, Tensor) and self.scale.requires_grad

    def slopes(self, along_scale: Tensor, parameters: list[torch.nn.Parameter]) -> list[Tensor | None]:
        """From ∂L/∂scale to the parameters the scale is made of."""
        assert isinstance(self.scale, Tensor)
        return slopes_of([(self.scale, along_scale.reshape(self.scale.shape).to(self.scale))], parameters, retain=True)


def log_sums_of(objective: Evaluable) -> LogSums | None:
    """None: the objective sees more than sums of exponentials, or these would not fit into a float32."""
    reads = objective.reads
    if objective.rows is not None or not reads or ("both" in reads and len(reads) > 1):
        return None
    with torch.enable_grad():  # the scale may be learned
        known = objective.log_sums()
    if known is None:
        return None
    scale, answer = known
    number = scale.item() if isinstance(scale, Tensor) else float(scale)
    return LogSums(scale, answer, number) if 0 < number <= LARGEST_SCALE else None


def scaled_similarities(rows: Tensor, keys: list[Tensor], sums: LogSums, out: Tensor) -> None:
    """scale · row·key of every pair: (B, D), (M, D) -> (B, M)."""
    first = 0
    for part in keys:
        place = out[:, first : (first := first + len(part))]
        torch.addmm(place, rows, part.T, beta=0, alpha=sums.number, out=place)


def sweep_sums(plan: Plan, sums: LogSums, turn: Turn, index: int, targets: list[Target], pieces: Pieces) -> Statistics:
    """One visit to all anchors of a turn: their statistics; adds to the targets' gradients."""
    batch, objective = turn.batch, plan.objective
    active = [target for target in targets if target.weights[index]]
    context = objective.prepare(batch.rows[turn.anchor], batch.rows[turn.other])
    columns = turn.columns(objective.reads[0])
    start, stop = batch.share.start, batch.share.start + batch.share.size
    found: Statistics = {}
    for block in slices(start, stop, pieces.rows):
        powers = [matrix[: block.stop - block.start] for matrix in pieces.matrices]
        found_in = [
            _totals(turn, read, block, matrix, sums) for read, matrix in zip(objective.reads, powers, strict=True)
        ]
        totals = [total for total, _ in found_in]
        x, y = (batch.rows[view][block].detach() for view in (turn.anchor, turn.other))
        across = objective.reads[0] in ("cross", "both")  # there the anchor's own instance is its positive
        positive = found_in[0][1] if across else positives(objective, x, y)
        leaves = [x, y, positive, *(total.log() for total in totals)]
        number = torch.full((len(x),), columns - turn.own_columns(columns), device=x.device)
        with torch.set_grad_enabled(bool(active)):
            moving = [True, objective.positives_move, True, *(True for _ in totals)]
            leaves = [leaf.requires_grad_(moves and bool(active)) for leaf, moves in zip(leaves, moving, strict=True)]
            anchors = turn.anchors(objective, block, x, y, [], context, leaves[2])
            out = sums.answer(anchors, leaves[3:], number)
        local = slice(block.start - start, block.stop - start)
        for name, value in out.items():
            found.setdefault(name, value.new_empty(batch.share.size))[local] = value.detach()
        for target in active:
            pairs = target.weighed(out, index, local)
            slopes = slopes_of(pairs, [*leaves, *plan.parameters], retain=True)
            plan.keep(turn, block, target, slopes[:2], slopes[len(leaves) :])
            if slopes[2] is not None:
                target.positives[index][local] = slopes[2]
            for read, matrix, total, slope in zip(
                objective.reads, powers, totals, slopes[3 : len(leaves)], strict=True
            ):
                if slope is not None:
                    _accumulate(plan, sums, turn, read, block, target, matrix, slope / total.clamp_min(SMALLEST))
    return found


def _totals(turn: Turn, read: Read, block: slice, powers: Tensor, sums: LogSums) -> tuple[Tensor, Tensor]:
    """Fills a block with exp(scale · s), 0 at the anchors' own instances, and adds up its rows: (B, M) -> (B,); and the
    similarity with the own instance (B,) that was there."""
    row, columns = turn.sources(read)
    scaled_similarities(turn.batch.rows[row][block], [turn.batch.rows[part] for part in columns], sums, powers)
    own = turn.own(torch.arange(block.start, block.stop, device=powers.device), powers.shape[1])
    of_own = powers[own][:, 0] / sums.number
    powers[own] = -torch.inf
    total = powers.new_empty(len(powers))
    for strip in strips_in_cache(powers):
        torch.sum(powers[strip].exp_(), dim=1, out=total[strip])
    return total, of_own


def _accumulate(
    plan: Plan, sums: LogSums, turn: Turn, read: Read, block: slice, target: Target, powers: Tensor, weight: Tensor
) -> None:
    """The two products that carry a block's ∂L/∂S = scale · weight_i e_ij to the embeddings on both of its sides."""
    row, columns = turn.sources(read)
    moves = row == turn.anchor or not plan.objective.one_sided
    rows, weight = turn.batch.rows[row][block], (weight * sums.number).unsqueeze(1)
    for part, place in turn.parts(columns):
        if sums.learned:  # Σ_j w_ij s_ij = x_i · Σ_j w_ij y_j
            slope = torch.mm(powers[:, place], turn.batch.rows[part]).mul_(weight)
            target.add_to_parameters(sums.slopes((slope * rows).sum() / sums.number, plan.parameters))
            if moves:
                target.add(row, block, slope)
        elif moves:
            target.add_product(row, block, powers[:, place], turn.batch.rows[part], weight)
        if not plan.objective.one_sided:
            target.add_product(part, slice(0, place.stop - place.start), powers[:, place].T, rows * weight)
