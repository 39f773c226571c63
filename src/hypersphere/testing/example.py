"""A small batch to try an objective on, and one way to call any objective."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.objectives import FeatureObjective, Objective
from hypersphere.objectives.functions import FunctionObjective
from hypersphere.objectives.released import WholeObjective


def views(size: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Two correlated views."""
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    z2 = z1 + 0.6 * torch.randn(size, dim, generator=generator, dtype=torch.float64)
    return z1.to(dtype), z2.to(dtype)


def some_labels(size: int) -> Tensor:
    """Two classes, and every fifth row unlabelled."""
    places = torch.arange(size)
    return torch.where(places % 5 == 4, -1, places % 2)


def call(objective: Callable[..., Any], z1: Tensor, z2: Tensor, labels: Tensor, negatives: Tensor | None) -> Tensor:
    """The loss: our own objectives get labels and negatives, other callables get the two views."""
    require_callable(objective)
    value = objective(z1, z2, labels, negatives=negatives) if isinstance(objective, Objective) else objective(z1, z2)
    if not isinstance(value, Tensor):
        raise AssertionError(f"the objective returned {type(value).__name__} instead of a tensor")
    return value


def require_callable(objective: object) -> None:
    if not callable(objective):
        raise ValueError(f"what is tried must be an objective or a function of two views, not {objective!r}")


def parameters(objective: Any) -> list[nn.Parameter]:
    """The learned parameters."""
    all_parameters = objective.parameters() if isinstance(objective, nn.Module) else []
    return [parameter for parameter in all_parameters if parameter.requires_grad]


def in_type(objective: Any, dtype: torch.dtype) -> Any:
    """A copy that computes in this type, if the objective is a module; our own in evaluation mode, where random
    directions are the same in every call."""
    if not isinstance(objective, nn.Module):
        return objective
    copied = copy.deepcopy(objective).to(dtype)
    return copied.eval() if isinstance(copied, Objective) else copied


def require_gradient(value: Tensor) -> Tensor:
    if not value.requires_grad:
        raise AssertionError("the objective's value has no gradient: it does not depend on the embeddings")
    return value


def require_one_number(value: Tensor) -> Tensor:
    if value.ndim:
        raise ValueError(
            f"the objective gives {tuple(value.shape)} numbers instead of one; try it with reduction 'mean' or 'sum'"
        )
    return value


def named(objective: Any) -> str:
    """Name of the objective in a message."""
    if isinstance(objective, Objective):
        return repr(objective)
    return str(getattr(objective, "__name__", type(objective).__name__))


def is_foreign(objective: Any) -> bool:
    """Whether the objective is a function or a module that its author wrote without this package."""
    return not isinstance(objective, Objective) or isinstance(objective, FunctionObjective)


def compares_pairs(objective: Any) -> bool:
    """Whether the objective, or its innermost base, is a function of pairs: it streams."""
    without = FeatureObjective, FunctionObjective, WholeObjective
    while isinstance(objective, Objective) and not isinstance(objective, without):
        if not hasattr(objective, "base"):
            return True
        objective = objective.base
    return False


def takes_negatives(objective: Any) -> bool:
    """Whether a call of the objective may give extra negatives."""
    return compares_pairs(objective) and "negatives" in objective.takes


def dimension(objective: Any, otherwise: int) -> int:
    """The dimension that one of our objectives requires, if any; in other modules this attribute may mean anything."""
    return int(getattr(objective, "dim", otherwise)) if isinstance(objective, Objective) else otherwise
