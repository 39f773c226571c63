"""Value and gradient in row blocks: memory linear in the batch, no backward written by hand.

A block of anchors has its similarities computed, is cut into thin strips, and each strip is a small autograd graph
of its own: similarities as leaves, the objective's ``block``, the gradient with respect to the strip. The gradient
overwrites the similarities, two matrix products add it to the gradients of the embeddings, the block is dropped.
All this happens in forward; backward only scales what is there. So a loss costs three matrix products for each
similarity matrix, four if anchors are coupled (a first sweep finds out how much each anchor counts), and across
processes no collective runs in backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, Turn, assemble, turns, weighed
from hypersphere.engine.contract import Evaluable, Rowwise, Statistics, Whole
from hypersphere.engine.masked import differentiated_once
from hypersphere.engine.processes import gather_rows, sum_over_processes, world_size
from hypersphere.engine.reduce import finish, uniform_weight

# A block is large enough for matrix products to run at full speed, a strip small enough to stay in cache.
BLOCK_ELEMENTS, STRIP_ELEMENTS, BLOCK_ROWS = 2**22, 2**20, 512

Weights = dict[str, Tensor | float]


@dataclass
class Target:
    """One number to differentiate: how much each statistic counts in it, and its gradients so far."""

    weights: list[Weights]  # by turn: a weight for all anchors, or one for each of this process's
    rows: list[Tensor | None]  # gradients of z1, z2, negatives as unit rows, of the whole batch; None: not wanted
    parameters: list[Tensor] = field(default_factory=list)

    def total(self, statistics: Statistics, turn: int, strip: slice) -> Tensor | None:
        with torch.enable_grad():
            parts = [
                (statistics[name] * (weight[strip] if isinstance(weight, Tensor) else weight)).sum()
                for name, weight in self.weights[turn].items()
                if statistics[name].requires_grad
            ]
            return torch.stack(parts).sum() if parts else None

    def add_to_parameters(self, slopes: list[Tensor | None]) -> None:
        for gradient, slope in zip(self.parameters, slopes, strict=True):
            if slope is not None:
                gradient += slope


def stream(
    objective: Evaluable,
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None,
    negatives: Tensor | None,
    parts: bool,
    rows: int | None,
) -> Statistics:
    """The objective's numbers, computed in blocks of ``rows`` anchors (None: chosen from the shape)."""
    plan = Plan(objective, labels, parts, rows, list(objective.parameters()))
    if objective.reduction == "none":
        if world_size(objective.gather) > 1:
            raise ValueError("reduction 'none' cannot be gathered: the weight of each anchor is not known in forward")
        values = _PerAnchor.apply(plan, z1, z2, negatives, *plan.parameters)  # type: ignore[no-untyped-call]
    else:
        values = _Reduced.apply(plan, z1, z2, negatives, *plan.parameters)  # type: ignore[no-untyped-call]
    return dict(zip(plan.names, values, strict=True))


@dataclass
class Plan:
    """What one evaluation needs beside its tensors; ``names`` says what came out."""

    objective: Evaluable
    labels: Tensor | None
    parts: bool
    block_rows: int | None
    parameters: list[torch.nn.Parameter]
    names: list[str] = field(default_factory=list)

    def target(self, batch: Batch, weights: list[Weights], needs: tuple[bool, ...]) -> Target:
        rows = [torch.zeros_like(h) if need else None for h, need in zip(batch.rows, needs, strict=False)]
        return Target(weights, rows, [torch.zeros_like(parameter) for parameter in self.parameters])

    def sweep(self, batch: Batch, targets: list[Target]) -> list[Statistics]:
        """Visits all of this process's anchors once; adds to the targets' gradients; statistics by turn."""
        return [self._sweep_turn(turn, index, targets) for index, turn in enumerate(turns(self.objective, batch))]

    def everybody(self, batch: Batch, statistics: list[Statistics]) -> list[Statistics]:
        """The statistics of all processes' anchors."""
        return [{name: gather_rows(v, batch.share) for name, v in turn.items()} for turn in statistics]

    def finish(self, statistics: list[Statistics]) -> Statistics:
        found = finish(self.objective, statistics)
        return found if self.parts else {"loss": found["loss"]}

    def _sweep_turn(self, turn: Turn, index: int, targets: list[Target]) -> Statistics:
        batch, objective = turn.batch, self.objective
        context = objective.prepare(batch.rows[turn.anchor], batch.rows[turn.other])
        columns = [turn.columns(read) for read in objective.reads]
        block_rows, strip_rows = self._rows(max(columns, default=1))
        found: list[Statistics] = []
        buffers = [batch.rows[0].new_empty(min(block_rows, batch.share.size), width) for width in columns]
        copies = [[torch.empty_like(b) for b in buffers] for _ in targets[1:]]
        start, stop = batch.share.start, batch.share.start + batch.share.size
        for block in _slices(start, stop, block_rows):
            matrices = [buffer[: block.stop - block.start] for buffer in buffers]
            self._products(turn, block, matrices)
            # The last target's gradient overwrites the similarities themselves.
            gradients = [[c[: len(m)] for c, m in zip(copy, matrices, strict=True)] for copy in copies] + [matrices]
            used = [[False] * len(matrices) for _ in targets]
            for strip in _slices(block.start, block.stop, strip_rows):
                inside = slice(strip.start - block.start, strip.stop - block.start)
                strips = [matrix[inside] for matrix in matrices]
                out, leaves = self._graph(turn, strip, strips, context, bool(targets), once=len(targets) < 2)
                found.append({name: value.detach() for name, value in out.items()})
                local = slice(strip.start - start, strip.stop - start)
                for number, target in enumerate(targets):
                    last = number == len(targets) - 1
                    total = target.total(out, index, local)
                    slopes = _slopes(total, [*leaves, *self.parameters], retain=not last)
                    self._keep(turn, strip, target, slopes[:2], slopes[2 + len(matrices) :])
                    for place, slope in enumerate(slopes[2 : 2 + len(matrices)]):
                        used[number][place] |= slope is not None
                        goal = gradients[number][place][inside]
                        goal.zero_() if slope is None else goal.copy_(slope)
            for number, target in enumerate(targets):
                wanted = [(p, g) for p, g in enumerate(gradients[number]) if used[number][p]]
                self._accumulate(turn, block, target, wanted)
        return {name: torch.cat([each[name] for each in found]) for name in found[0]}

    def _rows(self, columns: int) -> tuple[int, int]:
        if self.block_rows:
            return self.block_rows, self.block_rows
        strip = max(1, STRIP_ELEMENTS // columns)
        return max(BLOCK_ROWS, BLOCK_ELEMENTS // columns), strip

    def _products(self, turn: Turn, block: slice, matrices: list[Tensor]) -> None:
        for read, matrix in zip(self.objective.reads, matrices, strict=True):
            row, columns = turn.sources(read)
            rows = weighed(self.objective, turn.batch.rows[row][block])
            for part, place in _places(turn, columns):
                torch.mm(rows, turn.batch.rows[part].T, out=matrix[:, place])

    def _graph(
        self, turn: Turn, strip: slice, strips: list[Tensor], context: Any, grad: bool, once: bool
    ) -> tuple[Statistics, list[Tensor]]:
        with torch.set_grad_enabled(grad):
            x, y = (turn.batch.rows[view][strip].detach() for view in (turn.anchor, turn.other))
            leaves = [x, y, *(s.detach() for s in strips)]
            if grad:
                moving = [True, self.objective.positives_move]
                moving += [
                    not self.objective.one_sided or turn.sources(read)[0] == turn.anchor
                    for read in self.objective.reads
                ]
                leaves = [leaf.requires_grad_(moves) for leaf, moves in zip(leaves, moving, strict=True)]
            anchors = turn.anchors(self.objective, strip, leaves[0], leaves[1], leaves[2:], context)
            with differentiated_once() if once else nullcontext():
                return self.objective.block(anchors), leaves

    def _keep(
        self, turn: Turn, strip: slice, target: Target, rows: list[Tensor | None], slopes: list[Tensor | None]
    ) -> None:
        """Adds the gradients of the anchors' own rows and of the objective's parameters."""
        for view, slope in zip((turn.anchor, turn.other), rows, strict=True):
            gradient = target.rows[view]
            if slope is not None and gradient is not None:
                gradient[strip] += slope
        target.add_to_parameters(slopes)

    def _accumulate(self, turn: Turn, block: slice, target: Target, slopes: list[tuple[int, Tensor]]) -> None:
        """The two products that carry a block's ∂L/∂S to the embeddings on both of its sides."""
        for matrix, slope in slopes:
            row, columns = turn.sources(self.objective.reads[matrix])
            rows, plain = weighed(self.objective, turn.batch.rows[row][block]), self.objective.metric(slope) is None
            for part, place in _places(turn, columns):
                anchors, keys = target.rows[row], target.rows[part]
                if anchors is not None and plain:
                    anchors[block].addmm_(slope[:, place], turn.batch.rows[part])
                elif anchors is not None:
                    anchors[block] += weighed(self.objective, slope[:, place] @ turn.batch.rows[part])
                if keys is not None and not self.objective.one_sided:
                    keys.addmm_(slope[:, place].T, rows)


def _slopes(total: Tensor | None, leaves: list[Any], retain: bool) -> list[Tensor | None]:
    """∂total/∂leaf, None where total does not depend on it."""
    moving = [leaf for leaf in leaves if leaf.requires_grad]
    if total is None or not moving:
        return [None] * len(leaves)
    found = iter(torch.autograd.grad(total, moving, allow_unused=True, retain_graph=retain))
    return [next(found) if leaf.requires_grad else None for leaf in leaves]


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Consecutive slices; one that is empty if there is nothing to cut (a process without rows)."""
    for first in range(start, max(stop, start + 1), step):
        yield slice(first, min(first + step, stop))


def _places(turn: Turn, columns: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
    """Where the parts of a matrix's columns stand."""
    first = 0
    for part in columns:
        yield part, slice(first, first := first + len(turn.batch.rows[part]))


def _raw(
    objective: Rowwise, batch: Batch, target: Target, inverse: list[Tensor], like: list[Tensor | None]
) -> list[Tensor | None]:
    """Gradients of this process's raw rows, times the processes whose mean DDP takes afterwards."""
    sum_over_processes([rows for rows in target.rows if rows is not None], batch.share)
    found: list[Tensor | None] = []
    for index, (rows, z) in enumerate(zip(target.rows, like, strict=True)):
        if rows is None or z is None:
            found.append(None)
            continue
        share = batch.extra if index == 2 else batch.share
        slope = share.own(rows)
        if objective.rows is None:
            h = share.own(batch.rows[index])
            along = torch.bmm(slope.unsqueeze(1), h.unsqueeze(2)).squeeze(2)
            slope.addcmul_(along, h, value=-1).mul_(inverse[index])  # (I - h hᵀ) ∂L/∂h / ‖z‖
        else:
            with torch.enable_grad():
                leaf = z.detach().to(slope.dtype).requires_grad_()
                (slope,) = torch.autograd.grad(objective.rows(leaf), leaf, slope)
        found.append(slope.mul(len(share.sizes)).to(z.dtype) if len(share.sizes) > 1 else slope.to(z.dtype))
        target.rows[index] = None
    return found


def _refuse_double_backward() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "a streamed objective cannot be differentiated twice; "
            "wrap its call in `with hypersphere.dense():` if memory allows N×N similarities"
        )


class _Reduced(torch.autograd.Function):
    """Scalars whose gradients are complete when forward returns."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, z1: Tensor, z2: Tensor, negatives: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        batch, inverse = assemble(plan.objective, z1, z2, plan.labels, negatives)
        needs, wants = ctx.needs_input_grad[1:4], any(ctx.needs_input_grad)
        targets: list[Target] = []
        if wants and not plan.objective.coupled and not plan.parts:
            weight = uniform_weight(plan.objective, batch.size)
            targets = [plan.target(batch, [{"loss": weight}, {"loss": weight}], needs)]
            leaves = plan.everybody(batch, plan.sweep(batch, targets))
            values = plan.finish(leaves)
            sum_over_processes(targets[0].parameters, batch.share)
        else:
            leaves = plan.everybody(batch, plan.sweep(batch, []))
            with torch.set_grad_enabled(wants):
                for turn in leaves:
                    for leaf in turn.values():
                        leaf.requires_grad_(wants and leaf.is_floating_point())
                values = plan.finish(leaves)
            if wants:
                # How much each anchor's statistics count in each value, and what the values owe to the
                # parameters directly: both known alike to every process.
                coupled = [_couple(plan, batch, value, leaves, needs) for value in values.values()]
                targets = [target for target, _ in coupled]
                plan.sweep(batch, targets)
                for target, direct in coupled:
                    sum_over_processes(target.parameters, batch.share)
                    target.add_to_parameters(direct)
        plan.names = list(values)
        raw = [_raw(plan.objective, batch, target, inverse, [z1, z2, negatives]) for target in targets]
        ctx.slopes = [[*rows, *target.parameters] for rows, target in zip(raw, targets, strict=True)]
        return tuple(value.detach() for value in values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_double_backward()
        total: list[Tensor | None] = [None] * len(ctx.slopes[0])
        for weight, slopes in zip(upstream, ctx.slopes, strict=True):
            for place, slope in enumerate(slopes):
                if slope is not None:
                    found, scaled = total[place], slope * weight.to(slope.dtype)
                    total[place] = scaled if found is None else found + scaled
        return (None, *total)


def _couple(
    plan: Plan, batch: Batch, value: Tensor, leaves: list[Statistics], needs: tuple[bool, ...]
) -> tuple[Target, list[Tensor | None]]:
    """The target a coupled value makes of the statistics, and its own slopes in the parameters."""
    flat = [leaf for turn in leaves for leaf in turn.values()]
    slopes = _slopes(value if value.requires_grad else None, [*flat, *plan.parameters], retain=True)
    found = iter(slopes[: len(flat)])
    weights: list[Weights] = []
    for turn in leaves:
        of_turn = {name: next(found) for name in turn}
        weights.append({name: batch.share.own(slope) for name, slope in of_turn.items() if slope is not None})
    return plan.target(batch, weights, needs), slopes[len(flat) :]


class _PerAnchor(torch.autograd.Function):
    """Vectors, one number per anchor: their weights come in backward, which sweeps the anchors once more."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, z1: Tensor, z2: Tensor, negatives: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        batch, _ = assemble(plan.objective, z1, z2, plan.labels, negatives)
        values = plan.finish(plan.sweep(batch, []))
        plan.names = list(values)
        ctx.plan = plan
        ctx.save_for_backward(z1, z2, negatives)
        return tuple(values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_double_backward()
        plan: Plan = ctx.plan
        z1, z2, negatives = ctx.saved_tensors
        batch, inverse = assemble(plan.objective, z1, z2, plan.labels, negatives)
        by_turn = zip(*(weight.split(batch.size) for weight in upstream), strict=True)
        weights: list[Weights] = [dict(zip(plan.names, each, strict=True)) for each in by_turn]
        target = plan.target(batch, weights, ctx.needs_input_grad[1:4])
        plan.sweep(batch, [target])
        return (None, *_raw(plan.objective, batch, target, inverse, [z1, z2, negatives]), *target.parameters)


class _Whole(_Reduced):
    """Scalars of the features of everybody's rows, differentiated in forward like the rest."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, objective: Whole, names: list[str], parts: bool, z1: Tensor, z2: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        batch, _ = assemble(objective, z1, z2, None, None)
        wants = any(ctx.needs_input_grad)
        with torch.set_grad_enabled(wants):
            leaves = [rows.detach().requires_grad_(wants) for rows in batch.rows[:2]]
            values = objective.features(*leaves)
        if not parts:
            values = {"loss": values["loss"]}
        names.extend(values)
        ctx.slopes = []
        for value in values.values() if wants else ():
            slopes = _slopes(value if value.requires_grad else None, [*leaves, *objective.parameters()], retain=True)
            # Every process has computed the whole: its own rows' part, and the parameters' as it is.
            rows = [None if s is None else batch.share.own(s) * len(batch.share.sizes) for s in slopes[:2]]
            ctx.slopes.append([None, None, *(s if s is None else s.to(z1.dtype) for s in rows), *slopes[2:]])
        return tuple(value.detach() for value in values.values())


def whole(objective: Whole, z1: Tensor, z2: Tensor, parts: bool) -> Statistics:
    """The numbers of an objective that sees the rows of all processes at once."""
    names: list[str] = []
    values = _Whole.apply(objective, names, parts, z1, z2, *objective.parameters())  # type: ignore[no-untyped-call]
    return dict(zip(names, values, strict=True))
