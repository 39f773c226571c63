"""The value of an objective on two views: computed densely for a small batch, in row blocks for a large one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, assemble
from hypersphere.engine.dense import evaluate_densely
from hypersphere.engine.distributed import raise_on_all_ranks, world_size
from hypersphere.engine.inputs import Inputs
from hypersphere.engine.objective import FeatureContract, PairContract, Statistics
from hypersphere.engine.streaming.accumulate import grads_of_value
from hypersphere.engine.streaming.function import scale_grads, stream
from hypersphere.engine.validation import check_inputs
from hypersphere.torch_internals import uncompiled

# Up to this many similarities in one matrix the plain autograd graph is as fast and can be differentiated twice.
DENSE_ELEMENTS = 2**20

_forced_rows: ContextVar[int | None] = ContextVar("forced_rows", default=None)


@contextmanager
def dense() -> Iterator[None]:
    """Makes every objective inside keep its similarity matrices for backward, whatever the batch size.

    Use it for double backward on a large batch. Memory grows with the square of the batch. Objectives that gather from
    several processes are always streamed.
    """
    token = _forced_rows.set(0)
    try:
        yield
    finally:
        _forced_rows.reset(token)


@contextmanager
def streaming(rows: int) -> Iterator[None]:
    """Makes every objective inside visit its anchors in blocks of ``rows``, however small the batch."""
    if rows < 1:
        raise ValueError(f"a block has at least one row, not {rows}")
    token = _forced_rows.set(rows)
    try:
        yield
    finally:
        _forced_rows.reset(token)


@uncompiled
def evaluate(objective: PairContract, inputs: Inputs, terms: bool = False) -> Statistics:
    """The reduced "loss" and, if ``terms``, every other named number of the objective, all differentiable.

    Everything is computed in float32 or better, also under autocast, as long as backward is called outside of it.
    """
    gathers = world_size(objective.gather) > 1
    given = [*inputs.all_views, *([] if inputs.negatives is None else [inputs.negatives])]
    if not gathers and not all(isinstance(z, Tensor) and z.ndim for z in given):
        check_inputs(inputs)  # raises; anything else is checked when the batch is assembled
    with raise_on_all_ranks(objective.gather), _without_autocast(inputs.z1):
        forced = _forced_rows.get()
        if not gathers and (forced == 0 or (forced is None and _is_small(objective, inputs))):
            return evaluate_densely(objective, inputs, terms)
        return stream(objective, inputs, terms, forced or None)


def _is_small(objective: PairContract, inputs: Inputs) -> bool:
    size, views = len(inputs.z1), len(inputs.all_views)
    read = max(
        (views if read == "both" else views - 1 if read == "cross" else 1) for read in objective.reads or ("same",)
    )
    num_extra = 0 if inputs.negatives is None else inputs.negatives.shape[-2]
    return size * (size * read + num_extra) <= DENSE_ELEMENTS


@uncompiled
def evaluate_features(objective: FeatureContract, inputs: Inputs, terms: bool = False) -> Statistics:
    """The same for an objective of the features of the whole batch, which every process computes for itself."""
    with raise_on_all_ranks(objective.gather), _without_autocast(inputs.z1):
        if world_size(objective.gather) == 1:
            batch, _ = assemble(objective, Inputs(inputs.z1, inputs.z2, inputs.labels, views=inputs.views))
            values = _features(objective, batch, batch.rows[:-1])
            return values if terms else {"loss": values["loss"]}
        names: list[str] = []
        flags = terms, torch.is_grad_enabled()
        values = _Features.apply(objective, names, flags, inputs, *inputs.all_views, *objective.parameters())  # type: ignore[no-untyped-call]
        return dict(zip(names, values, strict=True))


def _features(objective: FeatureContract, batch: Batch, rows: Sequence[Tensor]) -> Statistics:
    """The objective's numbers; labels reach only an objective that reads them."""
    features: Any = objective.features
    labels = {"labels": batch.labels.keys} if objective.labelled and batch.labels is not None else {}
    values: Statistics = features(*rows, **labels)
    return values


class _Features(torch.autograd.Function):
    """Scalars of the features of all ranks' rows, differentiated in forward, so that no collective runs in backward."""

    @staticmethod
    def forward(
        ctx: Any,
        objective: FeatureContract,
        names: list[str],
        flags: tuple[bool, bool],
        inputs: Inputs,
        *given: Tensor,
    ) -> tuple[Tensor, ...]:
        terms, grad = flags
        num_views = len(inputs.all_views)
        z1, z2, *views = given[:num_views]
        batch, _ = assemble(objective, Inputs(z1, z2, inputs.labels, views=tuple(views)))
        needs = grad and any(ctx.needs_input_grad)
        with torch.set_grad_enabled(needs):
            leaves = [rows.detach().requires_grad_(needs) for rows in batch.rows[:-1]]
            values = _features(objective, batch, leaves)
        if not terms:
            values = {"loss": values["loss"]}
        names.extend(values)
        saved: list[Tensor | None] = []
        for value in values.values() if needs else ():
            grads = grads_of_value(value, [*leaves, *objective.parameters()])
            # Every rank computes the whole: it keeps the part of its own rows, and the parameters' as it is.
            rows = [None if g is None else batch.shard.own(g) * batch.shard.world_size for g in grads[:num_views]]
            saved += [*rows, *grads[num_views:]]
        ctx.save_for_backward(*saved)
        return tuple(value.detach() for value in values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, None, None, *scale_grads(ctx.saved_tensors, upstream))


def _without_autocast(z: object) -> AbstractContextManager[Any]:
    device = z.device.type if isinstance(z, Tensor) and not z.is_meta else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
