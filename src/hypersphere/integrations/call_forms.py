"""What losses in the call form of a peer share: the peer's defaults, and a temperature that belongs to the caller."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.objectives import Objective, create_objective
from hypersphere.objectives.presets import PRESETS
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import Number


def create_as(peer: str, objective: str, **settings: Any) -> Objective:
    """An objective by its name, with the defaults of the peer's loss of that name if the peer has one."""
    return create_objective(objective, **{**PRESETS.get(peer, {}).get(objective, {}), **settings})


def create_with_callers_temperature(peer: str, objective: str, **settings: Any) -> Objective:
    """The same, with a place for a temperature, and a bias, that each call may give; it learns none itself."""
    declared = objective_class(objective).settings().values()
    learned = {each.parameter for each in declared if isinstance(each, Number) and each.learnable}
    created = create_as(peer, objective, **settings, **({"learnable": True} if learned else {}))
    for name, parameter in created.named_parameters(recurse=False):
        parameter.requires_grad_(name not in learned)
    return created


def require_positives(rows: Any, what: str) -> None:
    """Raises if the second view, whose rows are the positives, is missing."""
    require_tensor(rows, what, "the rows (N, D) of the positives")


def require_tensor(value: Any, what: str, meaning: str) -> None:
    """Raises unless the value is a tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{what} must be {meaning}, not {type(value).__name__}")


def as_number(value: Any, what: str, like: Tensor, positive: bool = False) -> Tensor:
    """One number (1,) in float32 or better, on the device of the rows; its gradient flows back to what was given."""
    try:
        tensor = torch.as_tensor(value, device=like.device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{what} must be one number, not {type(value).__name__}") from None
    if tensor.numel() != 1:
        raise ValueError(f"{what} must be one number, not a tensor of shape {tuple(tensor.shape)}")
    wide = tensor.reshape(1).to(torch.promote_types(tensor.dtype, torch.float32))
    if positive and not wide.detach().item() > 0:
        raise ValueError(f"{what} must be above 0, not {wide.item():g}")
    return wide


def call_at(
    objective: Objective, log_temperature: Tensor | None, bias: Tensor | None, *views: Tensor, **given: Any
) -> Tensor:
    """The objective at a temperature, and a bias, that are not its own parameters; both receive their gradients.

    Where the formula has no such parameter, the gradient is 0 rather than absent: DDP waits for it.
    """
    replaced, absent = {}, []
    for name, value in (("log_temperature", log_temperature), ("bias", bias)):
        if value is not None and name in dict(objective.named_parameters(recurse=False)):
            replaced[name] = value
        elif value is not None:
            absent.append(value)
    loss: Tensor = torch.func.functional_call(objective, replaced, views, given)
    for value in absent:
        loss = loss + 0 * value.reshape(())
    return loss
