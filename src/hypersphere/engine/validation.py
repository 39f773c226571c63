"""Checks that reject input that cannot be two views of a batch, with one clear sentence."""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor

from hypersphere.engine.objective import PairContract, RowContract
from hypersphere.torch_internals import plain_operations


def check_views(z1: Tensor, z2: Tensor, labels: Tensor | None, negatives: Tensor | None) -> None:
    """Raises unless the tensors are two views (N, D), labels (N,) and negatives (M, D) on one device."""
    for name, z in (("z1", z1), ("z2", z2), ("negatives", negatives)):
        if z is None and name == "negatives":
            continue
        if not isinstance(z, Tensor):
            raise ValueError(f"{name} must be a tensor, not {type(z).__name__}")
        if z.layout != torch.strided or z.is_nested:
            raise ValueError(f"{name} must be a dense tensor, not {'nested' if z.is_nested else z.layout}")
        if z.ndim != 2 or z.shape[1] == 0:
            raise ValueError(f"{name} must be a matrix, one embedding per row, not of shape {tuple(z.shape)}")
        if not z.is_floating_point():
            raise ValueError(f"{name} must hold floating point numbers, not {z.dtype}")
        if z.dtype.itemsize < 2:
            raise ValueError(f"{name} is of type {z.dtype}, which is for storage alone; convert it: {name}.float()")
        if z.is_meta:
            raise ValueError(f"{name} is on the meta device, where tensors hold no numbers")
        if z.device != z1.device:
            raise ValueError(f"{name} is on {z.device} but z1 is on {z1.device}")
    if z1.shape != z2.shape:
        raise ValueError(f"the two views differ in shape: z1 {tuple(z1.shape)}, z2 {tuple(z2.shape)}")
    if negatives is not None and negatives.shape[1] != z1.shape[1]:
        raise ValueError(f"negatives have {negatives.shape[1]} dimensions but the views have {z1.shape[1]}")
    if labels is not None:
        _check_labels(labels, z1)


def _check_labels(labels: Tensor, z1: Tensor) -> None:
    if not isinstance(labels, Tensor) or labels.shape != z1.shape[:1]:
        given = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(f"labels must be a tensor of {len(z1)} whole numbers, one per row, not {given}")
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels must be whole numbers (-1: unlabelled), not {labels.dtype}")
    if labels.layout != torch.strided:
        raise ValueError(f"labels must be a dense tensor, not {labels.layout}")
    if labels.device != z1.device:
        raise ValueError(f"labels are on {labels.device} but z1 is on {z1.device}")


def check_size(objective: RowContract, size: int) -> None:
    """Raises if the batch has too few instances for the objective."""
    if size < objective.fewest:
        fewest = ("one instance", "two instances")[objective.fewest - 1]
        raise ValueError(f"{_name(objective)} needs a batch of at least {fewest}; this one has {size}")


def check_one_row(objective: PairContract, size: int, num_extra: int, losses: Tensor) -> None:
    """For a batch of one row without negatives: warns, or raises if the formula has no finite value there."""
    if size > 1 or num_extra or not objective.reads or plain_operations():
        return
    if not bool(losses.isfinite().all()):
        raise ValueError(
            f"{_name(objective)} has no finite value for an anchor without negatives: give a batch of one row "
            "`negatives=`, or drop it"
        )
    _warn_of_one_row()


@cache
def _warn_of_one_row() -> None:
    """Warns once in the life of a process."""
    warnings.warn(
        "a batch of one row has no negatives: a softmax or hinge loss is 0 there, an energy is left out "
        "(this warning is given once)",
        stacklevel=2,
    )


def _name(objective: RowContract) -> str:
    return str(getattr(objective, "name", type(objective).__name__))
