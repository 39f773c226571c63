"""Tests by trying whether a setting of an objective has an effect: a setting without one is not worth a trial."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from hypersphere.objectives.base import Objective
from hypersphere.training.objective import reads_labels

ROWS, DIMENSION, CLASSES = 32, 8, 4


def has_effect(objective: Objective, setting: str, values: Sequence[float]) -> bool:
    """Whether the objective's value or gradient differs between some values of a setting. For a setting of an inner
    objective (``base.temperature``), the inner objective is tested. KCL's t has no effect with the kernel imq, and the
    weight of mmhe has none at its last stage. A setting that cannot be tried counts as having an effect."""
    *outer, name = setting.split(".")
    owner = objective
    for each in outer:
        owner = getattr(owner, each)
    try:
        responses = [_response(_changed(owner, name, value)) for value in values]
    except Exception:  # CLOA's dimension is not known yet; a user's objective may have a mistake
        return True
    return not all(_same(response, responses[0]) for response in responses)


def _changed(objective: Objective, name: str, value: float) -> Objective:
    made = copy.deepcopy(objective)
    setattr(made, name, type(getattr(made, name))(value))
    return made


def _response(objective: Objective) -> list[Tensor | None]:
    """Value and gradient for a batch with positives at all angles, so that every margin has an anchor to act on."""
    views = [view.clone().requires_grad_() for view in _views()]
    labels = {"labels": torch.arange(ROWS) % CLASSES} if reads_labels(objective) else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        value = objective(*views, **labels)
    return [value.detach(), *torch.autograd.grad(value, views, allow_unused=True)]


@cache
def _views() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    first, aside = (torch.randn(ROWS, DIMENSION, generator=draw) for _ in range(2))
    angles = torch.linspace(0, math.pi, ROWS)[:, None]
    return first, torch.cos(angles) * first + torch.sin(angles) * aside


def _same(first: Sequence[Tensor | None], second: Sequence[Tensor | None]) -> bool:
    return all(
        one is other if one is None or other is None else torch.equal(one, other)
        for one, other in zip(first, second, strict=True)
    )
