"""Streamed objectives as autograd functions: memory linear in the batch, no backward written by hand.

All gradients are computed in forward (see ``sweep``); backward only scales what is there. So a loss costs three matrix
products for each similarity matrix, four if anchors are coupled (a first sweep finds out how much each anchor counts),
and across processes no collective runs in backward.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, assemble, turns, weighed
from hypersphere.engine.contract import Evaluable, Statistics, Whole
from hypersphere.engine.processes import exchange, sum_over_processes, world_size
from hypersphere.engine.reduce import uniform_weight
from hypersphere.engine.sweep import Plan, Target, Weights, slopes_of

CACHED_ROWS = 512

P = ParamSpec("P")
T = TypeVar("T")


def _uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """Keeps torch.compile out, since the engine differentiates inside forward. What does so is loaded at the first
    call: it would double the time that importing this package takes."""
    outside: list[Callable[P, T]] = []

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not outside:
            outside.append(torch.compiler.disable(function))
        return outside[0](*args, **kwargs)

    return call


@_uncompiled
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
    plan = Plan(objective, labels, parts, rows, list(objective.parameters()), torch.is_grad_enabled())
    if objective.reduction == "none":
        if world_size(objective.gather) > 1:
            raise ValueError("reduction 'none' cannot be gathered: the weight of each anchor is not known in forward")
        values = _PerAnchor.apply(plan, z1, z2, negatives, *plan.parameters)  # type: ignore[no-untyped-call]
    else:
        values = _Reduced.apply(plan, z1, z2, negatives, *plan.parameters)  # type: ignore[no-untyped-call]
    return dict(zip(plan.names, values, strict=True))


def _raw(
    plan: Plan, batch: Batch, target: Target, inverse: list[Tensor], like: list[Tensor | None]
) -> list[Tensor | None]:
    """Gradients of this process's raw rows, times the processes whose mean DDP takes afterwards."""
    sum_over_processes([rows for rows in target.rows if rows is not None], batch.share)
    found: list[Tensor | None] = []
    for index, z in enumerate(like):
        rows = target.gradient(index)
        if rows is None or z is None:
            found.append(None)
            continue
        share = batch.extra if index == 2 else batch.share
        slope = share.own(rows)
        _finish_rows(plan, batch, target, index, slope, inverse[index])
        if plan.objective.rows is not None:
            with torch.enable_grad():
                leaf = z.detach().to(slope.dtype).requires_grad_()
                (slope,) = torch.autograd.grad(plan.objective.rows(leaf), leaf, slope)
        # Kept in float32 or better: autograd casts to the input's type after backward has scaled it.
        found.append(slope * len(share.sizes) if len(share.sizes) > 1 else slope)
        target.like[index] = target.rows[index] = None
    return found


def _finish_rows(plan: Plan, batch: Batch, target: Target, index: int, slope: Tensor, inverse: Tensor) -> None:
    """Adds what a view's rows gain from the positives, then goes back from unit rows to raw ones: (I - h hᵀ) ∂L/∂h
    over the norm. In place, a few rows at a time, while they are in cache."""
    objective, share = plan.objective, batch.extra if index == 2 else batch.share
    own = share.own(batch.rows[index])
    of_positives = [
        slopes
        for turn, slopes in zip(turns(objective, batch), target.positives, strict=True)
        if index == turn.anchor or (index == turn.other and objective.positives_move)
    ]
    for start in range(0, len(slope), CACHED_ROWS):
        part = slice(start, start + CACHED_ROWS)
        gradient, h = slope[part], own[part]
        for slopes in of_positives:
            other = weighed(objective, share.own(batch.rows[1 - index])[part])
            gradient.addcmul_(slopes[part].unsqueeze(1), other)
        if objective.rows is None:
            gradient.addcmul_((gradient * h).sum(dim=1, keepdim=True), h, value=-1).mul_(inverse[part])


def _needs_anywhere(
    plan: Plan, batch: Batch, needs: tuple[bool, ...], device: torch.device
) -> tuple[tuple[bool, ...], bool]:
    """Which of z1, z2, negatives, and whether any parameter, needs a gradient on any process: all take part in
    summing it up."""
    own = [plan.grad and need for need in (*needs[1:4], any(needs[4:]))]
    if len(batch.share.sizes) > 1:
        everybody = exchange([*map(int, own), int(plan.parts)], device)
        if len({each[-1] for each in everybody}) > 1:
            raise ValueError("some processes ask for the loss and others for its terms; all must ask for the same")
        own = [any(each) for each in zip(*everybody, strict=True)][:-1]
    return tuple(own[:3]), own[3]


def _keep_slopes(ctx: Any, slopes: list[list[Tensor | None]]) -> None:
    """Kept as autograd keeps tensors: freed by backward, refused a second time."""
    ctx.save_for_backward(*(slope for each in slopes for slope in each))


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
        needs, of_parameters = _needs_anywhere(plan, batch, ctx.needs_input_grad, z1.device)
        wants = any(needs) or of_parameters
        if not wants:
            values, targets = plan.finish(plan.everybody(batch, plan.sweep(batch, []))), list[Target]()
        elif not plan.objective.coupled and not plan.parts:
            values, targets = _uncoupled(plan, batch, needs)
        elif plan.objective.one_sided and not plan.objective.positives_move and not parameters:
            values, targets = _coupled_one_sided(plan, batch, needs)
        elif plan.objective.pooled is not None and not plan.parts and not parameters:
            values, targets = _pooled(plan, batch, needs)
        else:
            values, targets = _coupled(plan, batch, needs)
        plan.names = list(values)
        raw = [_raw(plan, batch, target, inverse, [z1, z2, negatives]) for target in targets]
        _keep_slopes(ctx, [[*rows, *target.parameters] for rows, target in zip(raw, targets, strict=True)])
        return tuple(value.detach() for value in values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_double_backward()
        width = len(ctx.saved_tensors) // len(upstream)
        total: list[Tensor | None] = [None] * width
        for number, weight in enumerate(upstream):
            for place, slope in enumerate(ctx.saved_tensors[number * width : (number + 1) * width]):
                if slope is not None:
                    # A copy of the gradients is spared where it is the whole of the loss that is differentiated.
                    scaled = slope if weight.is_cpu and weight == 1 else slope * weight
                    found = total[place]
                    total[place] = scaled if found is None else found + scaled
        return (None, *total)


Found = tuple[Statistics, list[Target]]


def _uncoupled(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """One sweep: every anchor counts the same, so its gradient is known as soon as it is visited."""
    weight = uniform_weight(plan.objective, batch.size)
    target = plan.target(batch, [{"loss": weight}, {"loss": weight}], needs)
    values = plan.finish(plan.everybody(batch, plan.sweep(batch, [target])))
    sum_over_processes(target.parameters, batch.share)
    return values, [target]


def _coupled(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """Two sweeps: the first finds out how much each anchor counts, the second differentiates."""
    values, coupled = _couple(plan, batch, plan.sweep(batch, []))
    targets = [plan.target(batch, weights, needs) for weights, _ in coupled]
    plan.sweep(batch, targets)
    for target, (_, direct) in zip(targets, coupled, strict=True):
        sum_over_processes(target.parameters, batch.share)
        target.add_to_parameters(direct)
    return values, targets


def _coupled_one_sided(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """One sweep: where only anchors move, each row of a statistic's gradient can be weighed afterwards."""
    moving = plan.moving_statistics(batch)[::-1]  # the last one needs no memory of its own; here it has a matrix
    slopes = [plan.target(batch, [{name: 1.0}, {name: 1.0}], needs) for name in moving]
    values, coupled = _couple(plan, batch, plan.sweep(batch, slopes))
    targets = [plan.target(batch, [], needs) for _ in coupled]
    for target, (weights, _) in zip(targets, coupled, strict=True):
        for name, slope in zip(moving, slopes, strict=True):
            for view, of_turn in enumerate(weights):  # the anchors of a turn are the rows of one view
                weight, part = of_turn.get(name), slope.rows[view]
                whole = None if part is None else target.gradient(view)
                if not isinstance(weight, Tensor):
                    continue
                target.positives[view].addcmul_(slope.positives[view], weight)
                if whole is not None and part is not None:
                    batch.share.own(whole).addcmul_(batch.share.own(part), weight.unsqueeze(1))
    return values, targets


class _Exponential:
    """Weights in proportion to the exponential of a statistic, scaled by the first ones seen."""

    def __init__(self) -> None:
        self.reference: Tensor | None = None

    def __call__(self, statistic: Tensor) -> Tensor:
        if self.reference is None and len(statistic):
            self.reference = statistic.mean()
        return statistic if self.reference is None else torch.exp(statistic - self.reference)


def _pooled(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """One sweep: but for a factor common to a turn's anchors, known when all have been seen, each counts as much as
    the exponential of its pooled statistic. All else depends on positives alone and is weighed afterwards."""
    pooled, views = plan.objective.pooled, range(len(turns(plan.objective, batch)))
    assert pooled is not None
    guesses = [_Exponential() for _ in views]
    others = [name for name in plan.moving_statistics(batch) if name != pooled]
    of_others = [plan.target(batch, [{name: 1.0} for _ in views], (False, False, False)) for name in others]
    of_pooled = [
        plan.target(batch, [{pooled: guesses[view]} if view == turn else {} for turn in views], needs) for view in views
    ]
    statistics = plan.sweep(batch, [*of_others, *of_pooled], once=True)
    values, ((weights, _),) = _couple(plan, batch, statistics)
    total = of_pooled[0]
    for view, (target, of_turn) in enumerate(zip(of_pooled, weights, strict=True)):
        exact, guess = of_turn[pooled], guesses[view](statistics[view][pooled])
        assert isinstance(exact, Tensor)
        factor = exact.sum() / guess.sum().clamp_min(torch.finfo(guess.dtype).tiny)
        if (exact - factor * guess).abs().sum() > 1e-3 * exact.abs().sum():
            raise ValueError(f"{type(plan.objective).__name__}.combine does not pool {pooled!r}; pooled must be None")
        for index, found in enumerate(target.rows):
            if found is not None:
                whole, found = total.rows[index], found.mul_(factor)
                if whole is None:
                    total.rows[index] = found
                elif whole is not found:
                    whole.add_(found)
        of_positives = target.positives[view].mul_(factor)
        for name, other in zip(others, of_others, strict=True):
            weight = of_turn[name]
            assert isinstance(weight, Tensor)
            of_positives.addcmul_(other.positives[view], weight)
        total.positives[view] = of_positives
    return values, [total]


def _couple(
    plan: Plan, batch: Batch, statistics: list[Statistics]
) -> tuple[Statistics, list[tuple[list[Weights], list[Tensor | None]]]]:
    """The values that ``combine`` makes of everybody's statistics, and for each how much this process's statistics
    count in it, by turn, and its slopes in the parameters directly: known alike to every process."""
    leaves = plan.everybody(batch, statistics)
    with torch.enable_grad():
        for turn in leaves:
            for leaf in turn.values():
                leaf.requires_grad_(leaf.is_floating_point())
        values = plan.finish(leaves)
    flat = [leaf for turn in leaves for leaf in turn.values()]
    found = []
    for value in values.values():
        slopes = slopes_of(_itself(value), [*flat, *plan.parameters], retain=True)
        each = iter(slopes[: len(flat)])
        by_turn = [{name: next(each) for name in turn} for turn in leaves]
        weights: list[Weights] = [
            {name: batch.share.own(slope) for name, slope in turn.items() if slope is not None} for turn in by_turn
        ]
        found.append((weights, slopes[len(flat) :]))
    return values, found


def _itself(value: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(value, torch.ones_like(value))] if value.requires_grad else []


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
        with torch.autocast(z1.device.type, enabled=False):
            plan.sweep(batch, [target])
            raw = _raw(plan, batch, target, inverse, [z1, z2, negatives])
        return (None, *raw, *target.parameters)


class _Whole(_Reduced):
    """Scalars of the features of everybody's rows, differentiated in forward like the rest."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, objective: Whole, names: list[str], flags: tuple[bool, bool], z1: Tensor, z2: Tensor, *own: Tensor
    ) -> tuple[Tensor, ...]:
        parts, grad = flags
        batch, _ = assemble(objective, z1, z2, None, None)
        wants = grad and any(ctx.needs_input_grad)
        with torch.set_grad_enabled(wants):
            leaves = [rows.detach().requires_grad_(wants) for rows in batch.rows[:2]]
            values = objective.features(*leaves)
        if not parts:
            values = {"loss": values["loss"]}
        names.extend(values)
        found: list[list[Tensor | None]] = []
        for value in values.values() if wants else ():
            slopes = slopes_of(_itself(value), [*leaves, *objective.parameters()], retain=True)
            # Every process has computed the whole: its own rows' part, and the parameters' as it is.
            rows = [None if s is None else batch.share.own(s) * len(batch.share.sizes) for s in slopes[:2]]
            found.append([None, None, *rows, *slopes[2:]])
        _keep_slopes(ctx, found)
        return tuple(value.detach() for value in values.values())


@_uncompiled
def whole(objective: Whole, z1: Tensor, z2: Tensor, parts: bool) -> Statistics:
    """The numbers of an objective that sees the rows of all processes at once."""
    names: list[str] = []
    flags = parts, torch.is_grad_enabled()
    values = _Whole.apply(objective, names, flags, z1, z2, *objective.parameters())  # type: ignore[no-untyped-call]
    return dict(zip(names, values, strict=True))
