"""From an objective and two views to its value: densely when the batch is small, in row blocks when it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, Turn, assemble, check, check_limit, positives, turns, weighed
from hypersphere.engine.compiling import uncompiled
from hypersphere.engine.contract import Evaluable, Read, Statistics, Whole
from hypersphere.engine.processes import raise_on_all_ranks, world_size
from hypersphere.engine.reduce import finish
from hypersphere.engine.stream import stream, whole

# Up to this many similarities in one matrix the plain autograd graph is as fast and can be differentiated twice.
DENSE_ELEMENTS = 2**20

_forced_rows: ContextVar[int | None] = ContextVar("forced_rows", default=None)


@contextmanager
def dense() -> Iterator[None]:
    """Inside, every objective keeps its similarity matrices for backward, whatever the batch size.

    For double backward on a large batch; memory grows with the square of the batch. Objectives that gather from
    several processes are always streamed.
    """
    token = _forced_rows.set(0)
    try:
        yield
    finally:
        _forced_rows.reset(token)


@contextmanager
def streaming(rows: int) -> Iterator[None]:
    """Inside, every objective visits its anchors in blocks of ``rows``, however small the batch."""
    if rows < 1:
        raise ValueError(f"a block has at least one row, not {rows}")
    token = _forced_rows.set(rows)
    try:
        yield
    finally:
        _forced_rows.reset(token)


@uncompiled
def evaluate(
    objective: Evaluable,
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None = None,
    negatives: Tensor | None = None,
    parts: bool = False,
) -> Statistics:
    """The reduced "loss" and, if ``parts``, every other named number of the objective, all differentiable.

    Everything is computed in float32 or better, also under autocast, as long as backward is called outside of it.
    """
    gathers = world_size(objective.gather) > 1
    given = [z1, z2] if negatives is None else [z1, z2, negatives]
    if not gathers and not all(isinstance(z, Tensor) and z.ndim for z in given):
        check(z1, z2, labels, negatives)  # says what is wrong; anything else is checked when the batch is assembled
    with raise_on_all_ranks(objective.gather), _without_autocast(z1):
        forced = _forced_rows.get()
        if not gathers and (forced == 0 or (forced is None and _is_small(objective, z1, negatives))):
            batch, _ = assemble(objective, z1, z2, labels, negatives)
            by_turn = [_dense_turn(objective, turn) for turn in turns(objective, batch)]
            if not parts and not objective.coupled:
                by_turn = [{"loss": statistics["loss"]} for statistics in by_turn]
            found = finish(objective, by_turn)
            check_limit(objective, batch, found["loss"])
            return found if parts else {"loss": found["loss"]}
        return stream(objective, z1, z2, labels, negatives, parts, forced or None)


@uncompiled
def evaluate_whole(objective: Whole, z1: Tensor, z2: Tensor, parts: bool = False) -> Statistics:
    """The same for an objective of the features of the whole batch, which every process computes for itself."""
    with raise_on_all_ranks(objective.gather), _without_autocast(z1):
        if world_size(objective.gather) > 1:
            return whole(objective, z1, z2, parts)
        batch, _ = assemble(objective, z1, z2, None, None)
        found = objective.features(batch.rows[0], batch.rows[1])
        return found if parts else {"loss": found["loss"]}


def _without_autocast(z: object) -> AbstractContextManager[Any]:
    device = z.device.type if isinstance(z, Tensor) and not z.is_meta else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _is_small(objective: Evaluable, z1: Tensor, negatives: Tensor | None) -> bool:
    columns = len(z1) * (2 if "both" in objective.reads else 1) + (0 if negatives is None else len(negatives))
    return len(z1) * columns <= DENSE_ELEMENTS


def _dense_turn(objective: Evaluable, turn: Turn) -> Statistics:
    """All anchors as one block of an ordinary autograd graph."""
    batch: Batch = turn.batch
    with torch.no_grad():
        context = objective.prepare(batch.rows[turn.anchor].detach(), batch.rows[turn.other].detach())

    def similarities(read: Read) -> Tensor:
        row, columns = turn.sources(read)
        keys = [batch.rows[column].detach() if objective.one_sided else batch.rows[column] for column in columns]
        rows = batch.rows[row].detach() if objective.one_sided and row != turn.anchor else batch.rows[row]
        return weighed(objective, rows) @ (keys[0] if len(keys) == 1 else torch.cat(keys)).T

    matrices = [similarities(read) for read in objective.reads]
    x, y = batch.rows[turn.anchor], batch.rows[turn.other]
    y = y if objective.positives_move else y.detach()
    if (
        objective.reads
        and objective.reads[0] in ("cross", "both")
        and not objective.one_sided
        and objective.rows is None
    ):
        positive = matrices[0].diagonal().clone()  # there already, but matrices may be written to
    else:
        positive = positives(objective, x, y)
    return objective.block(turn.anchors(objective, slice(0, batch.size), x, y, matrices, context, positive))
