"""Keeping torch.compile out: the engine chooses its path by the numbers it meets, and differentiates inside forward."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, which a compiled caller runs as it is: one graph break instead of dozens.

    The compiler is not loaded for its sake, which would double the time that importing this package takes.
    """
    outside: list[Callable[P, T]] = []

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if not outside:
            outside.append(torch.compiler.disable(function))
        return outside[0](*args, **kwargs)

    # What torch.compiler.disable would set: the compiler does not look into ``call``. Where it does, a few breaks more.
    marked: Any = call
    marked._torchdynamo_disable = True
    return call
