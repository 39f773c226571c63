"""Every private name of torch that this package probes, and what happens where torch does not have it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

P = ParamSpec("P")
T = TypeVar("T")


def plain_operations() -> bool:
    """Whether torch.func (grad, jacfwd, …) or forward mode is active, which see only torch's own operations.

    Without the private names: False, and these modes miss the gradients of autograd functions written here.
    """
    transformed: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
    return transformed() or getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0


def graph_is_freed() -> bool:
    """Inside a backward: whether the graph is freed after it, so that saved memory may be overwritten or handed out.

    Without the private name: False, and gradients are copied.
    """
    keeps: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
    return not keeps()


def version_of(tensor: Tensor) -> int | None:
    """How often a tensor has been written to in place; None in inference mode, where torch does not count.

    Without the private name: None, so that masks do not keep their positions, and similarities are taken as unchanged.
    """
    return None if tensor.is_inference() else getattr(tensor, "_version", None)


def is_batch_norm(module: nn.Module) -> bool:
    """Whether a module normalises over the batch.

    Without the private name: only torch's own classes are recognised.
    """
    own = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm
    return isinstance(module, getattr(nn.modules.batchnorm, "_BatchNorm", own))


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, which torch.compile does not trace: one graph break instead of dozens.

    The engine chooses its path by the numbers it meets and differentiates inside forward, so there is nothing to
    trace. The compiler is imported only if the caller has imported it; it doubles the time of importing this package.
    Without the private attribute: a few graph breaks more.
    """
    disabled: list[Callable[P, T]] = []

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))
        return disabled[0](*args, **kwargs)

    marked: Any = call
    marked._torchdynamo_disable = True  # what torch.compiler.disable sets
    return call
