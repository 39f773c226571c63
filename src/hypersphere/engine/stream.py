"""Streamed objectives as autograd functions: memory linear in the batch, no backward written by hand.

All gradients are computed in forward (see ``gradients`` and ``sweep``); backward only scales what is there, so that
across processes no collective runs in it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, assemble, check_limit, turns, weighed
from hypersphere.engine.contract import Evaluable, Statistics, Whole
from hypersphere.engine.gradients import differentiate
from hypersphere.engine.memory import kept_memory
from hypersphere.engine.processes import sum_over_processes, world_size
from hypersphere.engine.slopes import itself, slopes_of
from hypersphere.engine.sums import log_sums_of
from hypersphere.engine.sweep import Plan
from hypersphere.engine.target import Target, Weights
from hypersphere.geometry.modes import plain_operations

CACHED_ROWS = 256


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
    if plain_operations():
        raise RuntimeError(
            "a streamed objective has no derivatives for torch.func and forward mode; "
            "wrap its call in `with hypersphere.dense():` if memory allows N×N similarities"
        )
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
    found: list[Tensor | None] = []
    for index, z in enumerate(like):
        rows = None if z is None else target.take(index)
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
    return found


def _sum_rows(batch: Batch, targets: list[Target]) -> None:
    """Adds up over all processes what each of them has found for the rows."""
    for target in targets:
        found = [target.found(index) for index in range(len(batch.rows))]
        sum_over_processes([rows for rows in found if rows is not None], batch.share)


def _finish_rows(plan: Plan, batch: Batch, target: Target, index: int, slope: Tensor, inverse: Tensor) -> None:
    """Adds what a view's rows gain from the positives, then goes back from unit rows to raw ones: (I - h hᵀ) ∂L/∂h
    over the norm. In place, a few rows at a time, while they are in cache."""
    objective, share = plan.objective, batch.extra if index == 2 else batch.share
    own = share.own(batch.rows[index])
    of_positives = [
        slopes
        for turn, slopes in zip(turns(objective, batch), target.positives, strict=True)
        if (index == turn.anchor or (index == turn.other and objective.positives_move)) and bool(slopes.any())
    ]
    for start in range(0, len(slope), CACHED_ROWS):
        part = slice(start, start + CACHED_ROWS)
        gradient, h = slope[part], own[part]
        for slopes in of_positives:
            other = weighed(objective, share.own(batch.rows[1 - index])[part])
            gradient.addcmul_(slopes[part].unsqueeze(1), other)
        if objective.rows is None:
            gradient.addcmul_((gradient * h).sum(dim=1, keepdim=True), h, value=-1).mul_(inverse[part])


def _asks(plan: Plan, needs: tuple[bool, ...]) -> list[int]:
    """Which of z1, z2, negatives, and whether any parameter, needs a gradient, and whether terms are wanted too."""
    return [*(int(plan.grad and need) for need in (*needs[1:4], any(needs[4:]))), int(plan.parts)]


def _needs_anywhere(batch: Batch) -> tuple[tuple[bool, ...], bool]:
    """Which of z1, z2, negatives, and whether any parameter, needs a gradient on any process: all take part in
    summing it up."""
    if len({parts for *_, parts in batch.asked}) > 1:
        raise ValueError("some processes ask for the loss and others for its terms; all must ask for the same")
    *rows, parameters, _ = [any(each) for each in zip(*batch.asked, strict=True)]
    return tuple(rows), parameters


def _keep_slopes(ctx: Any, slopes: list[list[Tensor | None]]) -> None:
    """Kept as autograd keeps tensors: freed by backward, refused a second time."""
    ctx.save_for_backward(*(slope for each in slopes for slope in each))


def _refuse_double_backward() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "a streamed objective cannot be differentiated twice; "
            "wrap its call in `with hypersphere.dense():` if memory allows N×N similarities"
        )


def _may_hand_out(weight: Tensor) -> bool:
    """Whether gradients need neither be scaled nor copied: it is the loss itself that is differentiated, and nobody
    will ask for them again."""
    kept = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
    try:
        return weight.is_cpu and not kept() and bool(weight == 1)
    except RuntimeError:  # a batch of weights
        return False


class _Reduced(torch.autograd.Function):
    """Scalars whose gradients are complete when forward returns."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, z1: Tensor, z2: Tensor, negatives: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        with kept_memory() as lend:
            asks = _asks(plan, ctx.needs_input_grad)
            batch, inverse = assemble(plan.objective, z1, z2, plan.labels, negatives, lend, asks)
            needs, of_parameters = _needs_anywhere(batch)
            if any(needs) or of_parameters:
                values, targets = differentiate(plan, batch, needs)
            else:
                values, targets = plan.finish(plan.everybody(batch, plan.sweep(batch, []))), []
            _sum_rows(batch, targets)
            check_limit(plan.objective, batch, values["loss"])
            raw = [_raw(plan, batch, target, inverse, [z1, z2, negatives]) for target in targets]
        plan.names = list(values)
        _keep_slopes(ctx, [[*rows, *target.parameters] for rows, target in zip(raw, targets, strict=True)])
        return tuple(value.detach() for value in values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_double_backward()
        saved = ctx.saved_tensors  # unpacked once, as checkpointing wants it
        width = len(saved) // len(upstream)
        total: list[Tensor | None] = [None] * width
        for number, weight in enumerate(upstream):
            for place, slope in enumerate(saved[number * width : (number + 1) * width]):
                if slope is not None:
                    scaled = slope if _may_hand_out(weight) else slope * weight
                    found = total[place]
                    total[place] = scaled if found is None else found + scaled
        return (None, *total)


def _settings(objective: Evaluable) -> list[dict[str, object]]:
    """The numbers and words an objective, and those inside it, are set to."""
    modules = objective.modules() if isinstance(objective, torch.nn.Module) else [objective]
    plain = (bool, int, float, str, type(None))
    return [{k: v for k, v in vars(each).items() if isinstance(v, plain) and k != "training"} for each in modules]


class _PerAnchor(torch.autograd.Function):
    """Vectors, one number per anchor: their weights come in backward, which sweeps the anchors once more."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, z1: Tensor, z2: Tensor, negatives: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        with kept_memory() as lend:
            batch, _ = assemble(plan.objective, z1, z2, plan.labels, negatives, lend)
            values = plan.finish(plan.sweep(batch, []))
            check_limit(plan.objective, batch, values["loss"])
        plan.names = list(values)
        ctx.plan, ctx.settings = plan, _settings(plan.objective)
        ctx.save_for_backward(z1, z2, negatives, plan.labels, *parameters)  # refused if they were changed by then
        return tuple(values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_double_backward()
        plan: Plan = ctx.plan
        z1, z2, negatives, *_ = ctx.saved_tensors
        if _settings(plan.objective) != ctx.settings:
            raise RuntimeError(
                "a setting of the objective was changed between forward and backward, which computes the losses of a "
                "streamed batch once more; change settings after backward"
            )
        plan.sums = log_sums_of(plan.objective)
        by_turn = zip(*(weight.split(len(z1)) for weight in upstream), strict=True)
        weights: list[Weights] = [dict(zip(plan.names, each, strict=True)) for each in by_turn]
        with torch.autocast(z1.device.type, enabled=False), kept_memory() as lend:
            batch, inverse = assemble(plan.objective, z1, z2, plan.labels, negatives, lend)
            target = plan.target(batch, weights, ctx.needs_input_grad[1:4])
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
            slopes = slopes_of(itself(value), [*leaves, *objective.parameters()], retain=True)
            # Every process has computed the whole: its own rows' part, and the parameters' as it is.
            rows = [None if s is None else batch.share.own(s) * len(batch.share.sizes) for s in slopes[:2]]
            found.append([None, None, *rows, *slopes[2:]])
        _keep_slopes(ctx, found)
        return tuple(value.detach() for value in values.values())


def whole(objective: Whole, z1: Tensor, z2: Tensor, parts: bool) -> Statistics:
    """The numbers of an objective that sees the rows of all processes at once."""
    names: list[str] = []
    flags = parts, torch.is_grad_enabled()
    values = _Whole.apply(objective, names, flags, z1, z2, *objective.parameters())  # type: ignore[no-untyped-call]
    return dict(zip(names, values, strict=True))
