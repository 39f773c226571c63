"""The value of an objective of features, such as a covariance: of the whole batch at once, on every process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch
from hypersphere.engine.distributed import raise_on_all_ranks, world_size
from hypersphere.engine.evaluate import without_autocast
from hypersphere.engine.inputs import Inputs, assemble, check_inputs
from hypersphere.engine.objective import FeatureContract, Statistics
from hypersphere.engine.streaming.accumulate import grads_of_value, through_rows
from hypersphere.engine.streaming.function import scale_grads
from hypersphere.torch_internals import uncompiled


@uncompiled
def evaluate_features(objective: FeatureContract, inputs: Inputs, terms: bool = False) -> Statistics:
    """The "loss" and, if ``terms``, every other named number; every process computes them from the rows of all."""
    inputs = Inputs(inputs.z1, inputs.z2, inputs.labels, views=inputs.views)  # all that features are made of
    with raise_on_all_ranks(objective.gather), without_autocast(inputs.z1):
        check_inputs(inputs)
        if world_size(objective.gather) == 1:
            batch, _ = assemble(objective, inputs)
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
        batch, _ = assemble(objective, replace(inputs, z1=z1, z2=z2, views=tuple(views)))
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
            for z, of_all in zip(given[:num_views], grads[:num_views], strict=True):
                local = None if of_all is None else batch.shard.local(of_all) * batch.shard.world_size
                if local is not None and objective.rows is not None:
                    local = through_rows(objective.rows, z, local)
                saved.append(local)
            saved += grads[num_views:]
        ctx.save_for_backward(*saved)
        return tuple(value.detach() for value in values.values())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, None, None, *scale_grads(ctx.saved_tensors, upstream))
