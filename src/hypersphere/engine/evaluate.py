"""The value of an objective on two views: computed densely for a small batch, in row blocks for a large one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from math import inf
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Direction, apply_metric, directions, positives
from hypersphere.engine.distributed import raise_on_all_ranks, world_size
from hypersphere.engine.inputs import Inputs, assemble, check_inputs, check_one_row
from hypersphere.engine.mask import Entries, fill_entries
from hypersphere.engine.objective import PairContract, Read, Statistics
from hypersphere.engine.reductions import (
    SMALLEST,
    Scale,
    masked_softmax,
    reduce_anchors,
    saved_times,
    sum_of_products,
    usable_scale,
)
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
    """The reduced "loss" and, if ``terms``, every other named number of the objective."""
    batch, _ = assemble(objective, inputs)
    summed = objective.sees == "logsumexp" and batch.own_negatives is None and not plain_operations()
    scale = usable_scale(objective) if summed else None
    statistics = [_statistics(objective, direction, scale) for direction in directions(objective, batch)]
    if not terms and not objective.coupled:
        statistics = [{"loss": each["loss"]} for each in statistics]
    values = reduce_anchors(objective, statistics)
    check_one_row(objective, batch.size, batch.has_extra, values["loss"])
    return values if terms else {"loss": values["loss"]}


def _statistics(objective: PairContract, direction: Direction, scale: Scale | None) -> Statistics:
    """The statistics of all anchors; with a scale, from the sums of their exponentials alone."""
    rows, own = direction.batch.rows, direction.batch.own_negatives
    x, y = rows[direction.anchor], rows[direction.positive_view]
    with torch.no_grad():
        context = objective.prepare(x.detach(), y.detach())
    reads, everyone = objective.reads, slice(0, direction.batch.size)
    matrices = [_similarities(objective, direction, read) for read in reads]
    views = [z.detach() if objective.one_sided and z is not x else z for z in rows[:-1]]
    unit_pairs = direction.batch.in_batch and not objective.one_sided and objective.rows is None
    on_diagonal = unit_pairs and reads[:1] in (("cross",), ("both",))
    if scale is None:
        # A copy, because an objective may write to its matrices.
        positive = (
            matrices[0].diagonal().clone() if on_diagonal else positives(objective, x, views[direction.positive_view])
        )
        of_own = None if own is None else own.rows.detach() if objective.one_sided else own.rows
        return objective.block(direction.anchors(objective, everyone, views, positive, matrices, context, of_own))
    excluded = [direction.excluded(read, everyone) for read in reads]
    sums = [_DiagonalAndLogSumExp.apply(m, e, scale.tensor) for m, e in zip(matrices, excluded, strict=True)]  # type: ignore[no-untyped-call]
    positive = sums[0][0] if on_diagonal else positives(objective, x, views[direction.positive_view])
    anchors = direction.anchors(objective, everyone, views, positive, [], context)
    num_negatives = tuple(direction.num_negatives(read, everyone, e) for read, e in zip(reads, excluded, strict=True))
    return objective.block_from_logsumexp(anchors, tuple(logsumexp for _, logsumexp in sums), num_negatives)


def _similarities(objective: PairContract, direction: Direction, read: Read) -> Tensor:
    rows, (view, sources) = direction.batch.rows, direction.sources(read)
    keys = [rows[source].detach() if objective.one_sided else rows[source] for source in sources]
    of_rows = rows[view].detach() if objective.one_sided and view != direction.anchor else rows[view]
    if not keys:
        return of_rows.new_empty(direction.batch.size, 0)
    return torch.mm(apply_metric(objective, of_rows), (keys[0] if len(keys) == 1 else torch.cat(keys)).T)


class _DiagonalAndLogSumExp(torch.autograd.Function):
    """The diagonal x_ii (N,) of a matrix (N, M), and log Σ_j exp(scale · x_ij) (N,) without the excluded entries, among
    which the diagonal is whenever it is read. For a scale at which exponentials of cosines stay in range."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, excluded: Entries, scale: Tensor | float) -> tuple[Tensor, Tensor]:
        powers = fill_entries(x * scale, excluded, -inf).exp_()
        total = powers.sum(dim=1)
        ctx.set_materialize_grads(False)
        ctx.excluded, ctx.scale = excluded, None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(x, powers, total, *([scale] if isinstance(scale, Tensor) else []))
        return x.diagonal().clone(), total.log()

    @staticmethod
    def backward(
        ctx: Any, of_diagonal: Tensor | None, of_sum: Tensor | None
    ) -> tuple[Tensor | None, None, Tensor | None]:
        x, powers, total, *rest = ctx.saved_tensors
        scale = rest[0] if rest else ctx.scale
        if of_sum is None:
            along_x = torch.zeros_like(x)
        elif torch.is_grad_enabled():  # differentiated twice: the same in torch's own operations
            counts = ~fill_entries(torch.zeros_like(x, dtype=torch.bool), ctx.excluded, True)
            along_x = masked_softmax(x, counts, scale) * counts * (of_sum * scale).unsqueeze(1)
        else:
            along_x = saved_times(powers, (of_sum * scale / total.clamp_min(SMALLEST)).unsqueeze(1))
        along_scale = sum_of_products(along_x, x) / scale if ctx.needs_input_grad[2] else None
        if of_diagonal is not None and torch.is_grad_enabled():
            along_x = torch.diagonal_scatter(along_x, along_x.diagonal() + of_diagonal)
        elif of_diagonal is not None:
            along_x.diagonal().add_(of_diagonal)
        return along_x, None, along_scale
