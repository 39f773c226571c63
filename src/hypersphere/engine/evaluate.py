"""The value of an objective on two views: computed densely for a small batch, in row blocks for a large one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Direction, apply_metric, directions, positives
from hypersphere.engine.distributed import raise_on_all_ranks, world_size
from hypersphere.engine.inputs import Inputs, assemble, check_inputs, check_one_row
from hypersphere.engine.objective import PairContract, Read, Scale, Statistics, reduce_anchors, usable_scale
from hypersphere.engine.reductions import diagonal_and_logsumexp
from hypersphere.engine.streaming.function import stream
from hypersphere.torch_internals import plain_operations, uncompiled

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
    with raise_on_all_ranks(objective.gather), without_autocast(inputs.z1):
        check_inputs(inputs)
        forced = _forced_rows.get()
        dense_here = forced == 0 or (forced is None and _is_small(objective, inputs))
        if dense_here and world_size(objective.gather) == 1:
            return _evaluate_densely(objective, inputs, terms)
        return stream(objective, inputs, terms, forced or None)


def _is_small(objective: PairContract, inputs: Inputs) -> bool:
    """Whether every matrix that the objective reads is small enough to be kept for backward."""
    size, views = len(inputs.z1), len(inputs.all_views)
    read = max(
        (views if read == "both" else views - 1 if read == "cross" else 1) for read in objective.reads or ("same",)
    )
    num_extra = 0 if inputs.negatives is None else inputs.negatives.shape[-2]
    return size * (size * read + num_extra) <= DENSE_ELEMENTS


def without_autocast(z: object) -> AbstractContextManager[Any]:
    """Switches autocast off on the device of a tensor."""
    device = z.device.type if isinstance(z, Tensor) and not z.is_meta else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


# ----------------------------------------------------------------------------------------------------- dense evaluation


def _evaluate_densely(objective: PairContract, inputs: Inputs, terms: bool) -> Statistics:
    """The reduced "loss" and, if ``terms``, every other named number, as an ordinary autograd graph."""
    batch, _ = assemble(objective, inputs)
    by_matrix = batch.own_negatives is not None or plain_operations()
    scale = None if by_matrix else usable_scale(objective)
    by_direction = [_statistics_of_all(objective, direction, scale) for direction in directions(objective, batch)]
    values = reduce_anchors(objective, by_direction, terms)
    check_one_row(objective, batch.size, batch.has_extra, values["loss"])
    return values


def _statistics_of_all(objective: PairContract, direction: Direction, scale: Scale | None) -> Statistics:
    """The statistics of all anchors of a direction; with a scale, from log-sum-exps alone."""
    batch, reads, whole = direction.batch, direction.reads, slice(0, direction.batch.size)
    own = None if batch.own_negatives is None else batch.own_negatives.rows
    # 1. Similarities. In a one-sided objective keys and positives carry no gradient.
    x, y = batch.rows[direction.anchor], batch.rows[direction.positive_view]
    matrices = [_similarities(objective, direction, read) for read in reads]
    views = [z.detach() if objective.one_sided and z is not x else z for z in batch.rows[:-1]]
    # 2. The positives. On the diagonal of the first matrix they need no operations of their own.
    unit_pairs = batch.in_batch and not objective.one_sided and objective.rows is None
    on_diagonal = unit_pairs and reads[:1] in (("cross",), ("both",))
    positive = None if on_diagonal else positives(objective, x, views[direction.positive_view])
    # 3. The formula.
    with torch.no_grad():
        context = objective.prepare(x.detach(), y.detach())
    if scale is None:
        if positive is None:
            positive = matrices[0].diagonal().clone()  # a copy, because an objective may write to its matrices
        own = own.detach() if own is not None and objective.one_sided else own
        return objective.block(direction.anchors(objective, whole, views, positive, matrices, context, own))
    excluded = [direction.excluded(read, whole) for read in reads]
    pairs = [diagonal_and_logsumexp(m, e, scale.tensor) for m, e in zip(matrices, excluded, strict=True)]
    positive = pairs[0][0] if positive is None else positive
    anchors = direction.anchors(objective, whole, views, positive, [], context)
    num_negatives = tuple(direction.num_negatives(read, whole, e) for read, e in zip(reads, excluded, strict=True))
    return objective.block_from_logsumexp(anchors, tuple(logsumexp for _, logsumexp in pairs), num_negatives)


def _similarities(objective: PairContract, direction: Direction, read: Read) -> Tensor:
    rows, (view, sources) = direction.batch.rows, direction.sources(read)
    keys = [rows[source].detach() if objective.one_sided else rows[source] for source in sources]
    of_rows = rows[view].detach() if objective.one_sided and view != direction.anchor else rows[view]
    if not keys:
        return of_rows.new_empty(direction.batch.size, 0)
    return torch.mm(apply_metric(objective, of_rows), (keys[0] if len(keys) == 1 else torch.cat(keys)).T)
