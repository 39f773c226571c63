"""Any objective in the call form of open_clip's losses, with the scale and the bias that its models learn.

loss = hs.integrations.open_clip.Loss("infonce", gather=True)
losses = loss(**model(images, texts), output_dict=True)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.integrations.call_forms import (
    as_number,
    call_at,
    create_with_callers_temperature,
    require_positives,
    require_tensor,
)

# What open_clip's create_loss passes on; ``gather`` alone stands for it here.
OF_CLIPLOSS = {"local_loss", "gather_with_grad", "cache_labels", "rank", "world_size", "use_horovod", "dist_impl"}


class Loss(nn.Module):
    """An objective called as ClipLoss and SigLipLoss are: the temperature is 1 / logit_scale.

    "infonce" equals ClipLoss (both directions), "siglip" SigLipLoss. An objective without a temperature or bias leaves
    the scale or bias as they are: their gradients are 0. gather=True replaces local_loss, gather_with_grad, rank,
    world_size and dist_impl: the value is that of the whole batch, the same on every process.

    max_scale: caps the scale, as open_clip's training loop does by clamping the parameter after each step. Beyond the
        cap the scale receives only gradients that lower it, so it neither runs away nor gets stuck. None: no cap.
    """

    def __init__(self, objective: str = "infonce", *, max_scale: float | None = None, **settings: Any) -> None:
        super().__init__()
        if max_scale is not None and not max_scale > 0:
            raise ValueError(f"max_scale must be above 0 or None, not {max_scale!r}")
        for name in {"temperature", "bias", "learnable"} & settings.keys():
            raise ValueError(f"{name} belongs to the model here: each call gives logit_scale (and logit_bias)")
        for name in sorted(OF_CLIPLOSS & settings.keys()):
            raise ValueError(f"{name} is ClipLoss's: leave it out, and give gather=True if there are several processes")
        self.max_scale = max_scale
        self.objective = create_with_callers_temperature("open_clip", objective, **settings)

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
    ) -> Any:
        """The loss, or {"contrastive_loss": loss}; features may be raw, since the objective normalises them."""
        require_tensor(image_features, "image_features", "the rows (N, D) of the anchors")
        require_positives(text_features, "text_features")
        scale = as_number(logit_scale, "logit_scale", image_features, positive=True)
        if self.max_scale is not None:
            scale = _Capped.apply(scale, self.max_scale)  # type: ignore[no-untyped-call]
        bias = as_number(0.0 if logit_bias is None else logit_bias, "logit_bias", image_features)
        loss = call_at(self.objective, -scale.log(), bias, image_features, text_features)
        return {"contrastive_loss": loss} if output_dict else loss


class _Capped(torch.autograd.Function):
    """min(scale, cap); beyond the cap only a gradient that lowers the scale passes."""

    @staticmethod
    def forward(ctx: Any, scale: Tensor, cap: float) -> Tensor:
        ctx.beyond = scale > cap
        return scale.clamp(max=cap)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,) = grads
        return torch.where(ctx.beyond, grad.clamp_min(0), grad), None
