"""LARS: stochastic gradient descent whose step is a share of each layer's own size (You et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer


class LARS(Optimizer):
    """v ← μ v + η ρ (g + β w),  w ← w - lr v,  with ρ = ‖w‖ / ‖g + β w‖ for every matrix or kernel.

    Vectors (biases, normalisation) take a plain step, without decay or adaptation, as SimCLR has it.
    trust: η. The adapted gradient has norm η ‖w‖.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = 0.9, weight_decay: float = 0.0, trust: float = 1e-3
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                change = weight.grad
                if weight.ndim > 1:
                    change = change.add(weight, alpha=group["weight_decay"])
                    size, length = weight.norm(), change.norm()
                    adapted = torch.where((size > 0) & (length > 0), group["trust"] * size / length, 1.0)
                    change = change * adapted
                state = self.state[weight]
                if "velocity" not in state:
                    state["velocity"] = torch.zeros_like(weight)
                state["velocity"].mul_(group["momentum"]).add_(change)
                weight.add_(state["velocity"], alpha=-group["lr"])
        return value
