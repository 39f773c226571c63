"""What is measured: every registered objective, with the plain form beside it where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchmarks import plain
from hypersphere.objectives import Objective, create_objective, list_objectives

CLASSES = 100
Plain = Callable[[Any, Tensor, Tensor, Tensor], Tensor]  # objective, z1, z2, labels


@dataclass(frozen=True)
class Case:
    """One objective with its settings. ``elementwise``: the expensive function it applies to every similarity."""

    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    plain: Plain | None = None
    elementwise: str | None = None

    def create(self, dim: int) -> Objective:
        settings = {"num_classes": min(CLASSES, dim), "dim": dim} if self.name == "cloa" else {}
        return create_objective(self.name, **{**settings, **self.settings})


NAMED = (
    Case("infonce", "infonce", plain=lambda o, a, b, y: plain.infonce(a, b)),
    Case("infonce symmetric", "infonce", {"symmetric": True}, lambda o, a, b, y: plain.infonce_symmetric(a, b)),
    Case("ntxent", "ntxent", plain=lambda o, a, b, y: plain.ntxent(a, b)),
    Case("supcon", "supcon", plain=lambda o, a, b, y: plain.supcon(a, b, y)),
    Case("dclw", "dclw", plain=lambda o, a, b, y: plain.dclw(a, b)),
    Case("met", "met", plain=lambda o, a, b, y: plain.met(a, b)),
    Case("align_uniform", "align_uniform", plain=lambda o, a, b, y: plain.align_uniform_same(a, b)),
    Case(
        "align_uniform cross",
        "align_uniform",
        {"pairs": "cross"},
        lambda o, a, b, y: plain.align_uniform_cross(a, b),
    ),
    Case("kcl", "kcl", plain=lambda o, a, b, y: plain.kcl_gaussian(a, b)),
    Case("kcl log", "kcl", {"kernel": "log"}, lambda o, a, b, y: plain.kcl_log(a, b), "log1p"),
    Case("siglip", "siglip", {}, lambda o, a, b, y: plain.siglip(a, b, o.temperature, o.bias), "softplus"),
    Case("paradigm", "paradigm", plain=lambda o, a, b, y: plain.paradigm(a, b)),
    Case("mmhe", "mmhe", plain=lambda o, a, b, y: plain.mmhe(a, b)),
    Case("mbarlow", "mbarlow", plain=lambda o, a, b, y: plain.mbarlow(a, b)),
    Case("cloa", "cloa", plain=lambda o, a, b, y: plain.cloa(a, b, y, o.anchors)),
)


def cases() -> list[Case]:
    """The cases above, then every other registered objective with its defaults and no plain form."""
    named = {case.name for case in NAMED}
    expensive = {"geodesic": "arccos"}
    others = [name for name in list_objectives() if name not in named]
    return [*NAMED, *(Case(name, name, elementwise=expensive.get(name)) for name in others)]


def inputs(size: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two views (N, D) whose positives are closer than chance, in float32, and labels (N,)."""
    generator = torch.Generator().manual_seed(0)
    z1 = torch.randn(size, dim, generator=generator)
    z2 = torch.randn(size, dim, generator=generator).add_(z1)
    labels = torch.randint(min(CLASSES, dim), (size,), generator=generator)
    return z1.requires_grad_(), z2.requires_grad_(), labels


def step(loss: Callable[[Tensor, Tensor, Tensor], Tensor], z1: Tensor, z2: Tensor, labels: Tensor) -> None:
    """Forward and backward once."""
    loss(z1, z2, labels).backward()
    z1.grad = z2.grad = None
