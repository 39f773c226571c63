"""Ways of differentiating that a gradient written by hand would be lost on."""

from __future__ import annotations

from collections.abc import Callable

import torch


def plain_operations() -> bool:
    """Whether torch.func (grad, jacfwd, …) or forward mode look on, to whom only torch's own operations are known."""
    transformed: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
    return transformed() or getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0
