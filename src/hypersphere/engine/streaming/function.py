"""The streamed objective as an autograd function: memory linear in the batch, no backward written by hand.

Forward chooses one of three loops by what the objective sees of its negatives, and computes all gradients there;
backward only scales them, so that no collective runs in it. How often a loop visits the anchors:

| anchors | visits | because |
|---|---|---|
| not coupled | 1 | every anchor's weight in the loss is known before it is visited |
| coupled, or all named numbers are asked for | 2 | the first visit collects the statistics that decide the weights |
| the same, one-sided, general loop, nothing learned | 1 | an anchor moves only itself: its gradient is weighted later |
| symmetric matrix, logsumexp | 2 | each pair is computed once in either visit, for both of its rows |

With ``reduction="none"`` the weights arrive in backward, which visits the anchors once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, Direction, directions
from hypersphere.engine.distributed import gather_statistics, sum_over_ranks, wait_for_all, world_size
from hypersphere.engine.inputs import Inputs, assemble, check_one_row
from hypersphere.engine.objective import (
    PairContract,
    Scale,
    Statistics,
    needed_statistics,
    reduce_anchors,
    uniform_weight,
    usable_scale,
)
from hypersphere.engine.streaming import general, hardest, logsumexp
from hypersphere.engine.streaming.accumulate import GradAccumulator, Weights, grads_of_value, raw_grads
from hypersphere.torch_internals import graph_is_freed, plain_operations

Loop = Callable[[PairContract, Direction, Sequence[GradAccumulator], int | None], Statistics]


def stream(objective: PairContract, inputs: Inputs, terms: bool, block_rows: int | None) -> Statistics:
    """The objective's numbers, computed in blocks of ``block_rows`` anchors (None: chosen from the shape)."""
    if plain_operations():
        raise RuntimeError(
            "a streamed objective has no derivatives for torch.func and forward mode; "
            "wrap its call in `with hypersphere.dense():` if memory allows N×N similarities"
        )
    plan = Plan(objective, inputs, terms, block_rows, list(objective.parameters()), torch.is_grad_enabled())
    function: Any = _Reduced
    if objective.reduction == "none":
        if world_size(objective.gather) > 1:
            raise ValueError("reduction 'none' cannot be gathered: the weight of each anchor is not known in forward")
        function = _PerAnchor
    values = function.apply(plan, *plan.tensors, *plan.parameters)
    return dict(zip(plan.names, values, strict=True))


@dataclass
class Plan:
    """What one evaluation needs beside its tensors; ``names`` are those of its results."""

    objective: PairContract
    inputs: Inputs
    terms: bool  # every named number, or the loss alone
    block_rows: int | None
    parameters: list[torch.nn.Parameter]
    grad: bool  # whether anything is to be differentiated at all
    names: list[str] = field(default_factory=list)

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """The raw rows that a gradient may be needed of: the views, and the negatives or None."""
        return *self.inputs.all_views, self.inputs.negatives

    def assemble(self, tensors: Sequence[Any], requests: list[int] | None = None) -> tuple[Batch, list[Tensor]]:
        """The batch of these tensors, in the order of ``tensors``, with everything else that the call was given."""
        z1, z2, *views, negatives = tensors
        inputs = replace(self.inputs, z1=z1, z2=z2, views=tuple(views), negatives=negatives)
        return assemble(self.objective, inputs, requests)

    def visit(self, batch: Batch, accumulators: list[GradAccumulator]) -> list[Statistics]:
        """Visits all of this process's anchors once, in the loop that fits; returns their statistics by direction."""
        loop, all_directions = self.loop(batch), directions(self.objective, batch)
        statistics = [loop(self.objective, each, accumulators, self.block_rows) for each in all_directions]
        wait_for_all(batch.shard)
        return statistics

    def loop(self, batch: Batch) -> Loop:
        """The loop that fits the objective; the general one, if each anchor has negatives of its own."""
        if batch.own_negatives is None and self.scale is not None:
            return partial(logsumexp.visit, scale=self.scale)
        if batch.own_negatives is None and self.objective.sees == "hardest":
            return hardest.visit
        return general.visit

    @cached_property
    def scale(self) -> Scale | None:
        """The scale for the log-sum-exp loop; None: another loop streams the objective."""
        return usable_scale(self.objective)

    def accumulator(self, batch: Batch, weights: list[Weights], needs: tuple[bool, ...]) -> GradAccumulator:
        """Zero gradients of one value, of those views and negatives that ``needs`` names."""
        like = [rows if need else None for rows, need in zip(batch.rows, needs, strict=True)]
        positives = [batch.rows[0].new_zeros(batch.shard.size) for _ in directions(self.objective, batch)]
        parameters = [torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32)) for p in self.parameters]
        own = None if batch.own_negatives is None or not needs[-1] else torch.zeros_like(batch.own_negatives.rows)
        return GradAccumulator(weights, like, positives, parameters, own)

    def reduce(self, batch: Batch, statistics: list[Statistics]) -> Statistics:
        """The values that follow from the statistics of this process's anchors and those of all others."""
        sent = needed_statistics(self.objective, statistics, self.terms)
        return reduce_anchors(self.objective, gather_statistics(sent, batch.shard), self.terms)


# ------------------------------------------------------------------------------------------------ values and gradients


def differentiate(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> tuple[Statistics, list[GradAccumulator]]:
    """The values by name, and for each its gradients; ``needs``: which of the views and negatives need one."""
    objective, scale = plan.objective, plan.scale
    if scale is not None and not plan.terms and logsumexp.is_symmetric(objective, batch):
        accumulator = plan.accumulator(batch, [], (*(True for _ in needs[:-1]), False) if scale.learned else needs)
        values = logsumexp.differentiate_symmetric(objective, scale, batch, accumulator, plan.block_rows)
        return values, [accumulator]
    if not objective.coupled and not plan.terms:
        return _in_one_visit(plan, batch, needs)
    if objective.one_sided and plan.loop(batch) is general.visit and not plan.parameters:
        return _weighted_afterwards(plan, batch, needs)
    return _in_two_visits(plan, batch, needs)


def _in_one_visit(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> tuple[Statistics, list[GradAccumulator]]:
    """Every anchor has the same weight."""
    num_directions = len(directions(plan.objective, batch))
    weights: list[Weights] = [{"loss": uniform_weight(plan.objective, batch.size, num_directions)}] * num_directions
    accumulator = plan.accumulator(batch, weights, needs)
    values = plan.reduce(batch, plan.visit(batch, [accumulator]))
    sum_over_ranks(accumulator.parameters, batch.shard)
    return values, [accumulator]


def _in_two_visits(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> tuple[Statistics, list[GradAccumulator]]:
    """The first visit finds the weights of the anchors, the second differentiates."""
    values, coupling = _couple(plan, batch, plan.visit(batch, []))
    accumulators = [plan.accumulator(batch, weights, needs) for weights, _ in coupling]
    plan.visit(batch, accumulators)
    for accumulator, (_, direct) in zip(accumulators, coupling, strict=True):
        sum_over_ranks(accumulator.parameters, batch.shard)
        accumulator.add_to_parameters(direct)
    return values, accumulators


def _weighted_afterwards(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> tuple[Statistics, list[GradAccumulator]]:
    """One visit: only anchors move, so the gradient of each statistic can be weighted row by row afterwards."""
    all_directions = directions(plan.objective, batch)
    visits = [
        general.visit_for_each_statistic(
            plan.objective, direction, lambda: plan.accumulator(batch, [], needs), plan.block_rows
        )
        for direction in all_directions
    ]
    wait_for_all(batch.shard)
    values, coupling = _couple(plan, batch, [statistics for statistics, _ in visits])
    wait_for_all(batch.shard)
    accumulators = [plan.accumulator(batch, [], needs) for _ in coupling]
    for total, (weights, _) in zip(accumulators, coupling, strict=True):
        for direction, (_, by_name), of_direction in zip(all_directions, visits, weights, strict=True):
            view = direction.anchor
            for name, unweighted in by_name.items():
                weight, grad, sum_of_grads = of_direction.get(name), unweighted.get(view), total.get(view)
                if not isinstance(weight, Tensor):
                    continue
                total.positives[view].addcmul_(unweighted.positives[view], weight)
                if grad is not None and sum_of_grads is not None:
                    batch.shard.local(sum_of_grads).addcmul_(batch.shard.local(grad), weight.unsqueeze(1))
    return values, accumulators


def _couple(
    plan: Plan, batch: Batch, statistics: list[Statistics]
) -> tuple[Statistics, list[tuple[list[Weights], list[Tensor | None]]]]:
    """The values that ``combine`` makes of all statistics and, for each value, the weights of this process's
    statistics, by direction, and its direct gradients with respect to the parameters, the same on every rank."""
    leaves = gather_statistics(statistics, batch.shard)
    with torch.enable_grad():
        for of_direction in leaves:
            for leaf in of_direction.values():
                leaf.requires_grad_(leaf.is_floating_point())
        values = reduce_anchors(plan.objective, leaves, plan.terms)
    flat = [leaf for of_direction in leaves for leaf in of_direction.values()]
    coupling = []
    for value in values.values():
        grads = grads_of_value(value, [*flat, *plan.parameters])
        each = iter(grads[: len(flat)])
        by_direction = [{name: next(each) for name in of_direction} for of_direction in leaves]
        weights: list[Weights] = [
            {name: batch.shard.local(grad) for name, grad in of_direction.items() if grad is not None}
            for of_direction in by_direction
        ]
        coupling.append((weights, grads[len(flat) :]))
    return values, coupling


# -------------------------------------------------------------------------------------------------- autograd functions


class _Reduced(torch.autograd.Function):
    """Scalars whose gradients are complete when forward returns."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *given: Tensor | None) -> tuple[Tensor, ...]:
        tensors = given[: len(plan.tensors)]
        # Which of the rows and whether any parameter needs a gradient here, and whether terms are asked for.
        rows, parameters = ctx.needs_input_grad[1 : 1 + len(tensors)], ctx.needs_input_grad[1 + len(tensors) :]
        wanted = [plan.grad and need for need in (*rows, any(parameters))]
        batch, inverse = plan.assemble(tensors, [as_bits(wanted), int(plan.terms)])
        if len({terms for *_, terms in batch.requests}) > 1:
            raise ValueError("some processes ask for the loss and others for its terms; all must ask for the same")
        # A gradient that any rank needs is computed by all.
        *needs, any_parameter = (any(bits >> place & 1 for bits, _ in batch.requests) for place in range(len(wanted)))
        if any(needs) or any_parameter:
            values, accumulators = differentiate(plan, batch, tuple(needs))
        else:
            values, accumulators = plan.reduce(batch, plan.visit(batch, [])), []
        for accumulator in accumulators:
            of_rows = [accumulator.get(index) for index in range(len(tensors))] if batch.shard.world_size > 1 else []
            sum_over_ranks([grad for grad in of_rows if grad is not None], batch.shard)
        check_one_row(plan.objective, batch.size, batch.has_extra, values["loss"])
        plan.names = list(values)
        grads = [
            [*raw_grads(plan.objective, batch, accumulator, inverse, tensors), *accumulator.parameters]
            for accumulator in accumulators
        ]
        ctx.save_for_backward(*(grad for each in grads for grad in each))  # freed by backward, refused a second time
        return tuple(value.detach() for value in values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *scale_grads(ctx.saved_tensors, upstream))


def as_bits(flags: Sequence[bool]) -> int:
    """Flags as one number, which a message between processes can carry."""
    return sum(1 << place for place, flag in enumerate(flags) if flag)


def scale_grads(saved: tuple[Tensor | None, ...], upstream: tuple[Tensor, ...]) -> list[Tensor | None]:
    """Σ over the values of upstream · gradient; ``saved`` holds the gradients of the first value, then the next …"""
    _refuse_double_backward()
    width = len(saved) // len(upstream)
    total: list[Tensor | None] = [None] * width
    for number, weight in enumerate(upstream):
        for place, grad in enumerate(saved[number * width : (number + 1) * width]):
            if grad is not None:
                scaled = grad if _is_one(weight) and graph_is_freed() else grad * weight
                known = total[place]
                total[place] = scaled if known is None else known + scaled
    return total


def _is_one(weight: Tensor) -> bool:
    """Whether the loss itself is differentiated, so that gradients need not be scaled."""
    try:
        return weight.is_cpu and bool(weight == 1)
    except RuntimeError:  # a batch of weights
        return False


def _refuse_double_backward() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "a streamed objective cannot be differentiated twice; "
            "wrap its call in `with hypersphere.dense():` if memory allows N×N similarities"
        )


class _PerAnchor(torch.autograd.Function):
    """Vectors, one number per anchor. Their weights arrive in backward, which visits the anchors once more."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *given: Tensor | None) -> tuple[Tensor, ...]:
        batch, _ = plan.assemble(given[: len(plan.tensors)])
        values = plan.reduce(batch, plan.visit(batch, []))
        check_one_row(plan.objective, batch.size, batch.has_extra, values["loss"])
        plan.names = list(values)
        ctx.plan, ctx.settings = plan, _settings(plan.objective)
        # Refused if they were changed by then.
        ctx.save_for_backward(*given, *plan.inputs.constants)
        return tuple(values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_double_backward()
        plan: Plan = ctx.plan
        tensors = ctx.saved_tensors[: len(plan.tensors)]
        if _settings(plan.objective) != ctx.settings:
            raise RuntimeError(
                "a setting of the objective was changed between forward and backward, which computes the losses of a "
                "streamed batch once more; change settings after backward"
            )
        by_direction = zip(*(weight.split(len(tensors[0])) for weight in upstream), strict=True)
        weights: list[Weights] = [dict(zip(plan.names, each, strict=True)) for each in by_direction]
        with torch.autocast(tensors[0].device.type, enabled=False):
            batch, inverse = plan.assemble(tensors)
            accumulator = plan.accumulator(batch, weights, ctx.needs_input_grad[1 : 1 + len(tensors)])
            plan.visit(batch, [accumulator])
            raw = raw_grads(plan.objective, batch, accumulator, inverse, tensors)
        return (None, *raw, *accumulator.parameters)


def _settings(objective: PairContract) -> list[dict[str, object]]:
    """The numbers and words that an objective and those inside it are set to."""
    modules = objective.modules() if isinstance(objective, torch.nn.Module) else [objective]
    simple = (bool, int, float, str, type(None))
    return [{k: v for k, v in vars(each).items() if isinstance(v, simple) and k != "training"} for each in modules]
