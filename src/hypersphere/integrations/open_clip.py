"""Objectives in open_clip's training: a loss that is called as its ``ClipLoss``, with the scale that its model owns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.objectives import create_objective, list_presets
from hypersphere.objectives.settings import Number

PRESET = "open_clip"


class Loss(nn.Module):
    """An objective with a temperature, called as ``ClipLoss`` and ``SigLipLoss`` are.

    objective: "infonce" is ClipLoss and "siglip" is SigLipLoss; any other whose temperature can be learned will do.
    max_scale: the largest scale that counts; the gradient of a larger one is 0. None: no limit, as in ClipLoss.
    settings: those of the objective, ``gather=True`` for several processes among them.

    The scale (1 / temperature) and the bias are the model's: they come with each call and get their gradient. The loss
    has no parameters to train.

    >>> loss = Loss("infonce")
    >>> scale = torch.tensor(20.0, requires_grad=True)
    >>> rows = torch.eye(4)
    >>> round(loss(rows, rows, scale, output_dict=True)["contrastive_loss"].item(), 6)
    0.0
    """

    def __init__(self, objective: str = "infonce", *, max_scale: float | None = None, **settings: Any) -> None:
        super().__init__()
        for name in ("temperature", "bias", "learnable"):
            if name in settings:
                raise ValueError(f"{name} cannot be set here: the model owns the scale and the bias")
        preset = PRESET if (PRESET, objective) in list_presets() else None
        self.objective = create_objective(objective, preset=preset, learnable=True, **settings)
        learned = {
            name for name, each in self.objective.settings().items() if isinstance(each, Number) and each.learnable
        }
        if "temperature" not in learned:
            raise ValueError(f"{objective} has no temperature that a model could own")
        if max_scale is not None and not max_scale > 0:
            raise ValueError(f"max_scale must be above 0, not {max_scale!r}")
        self.max_scale = max_scale
        self.has_bias = "bias" in learned
        self.requires_grad_(False)

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
    ) -> Tensor | dict[str, Tensor]:
        if self.has_bias == (logit_bias is None):
            raise ValueError(f"{self.objective.name} {'needs a' if self.has_bias else 'has no'} logit_bias")
        scale = logit_scale if self.max_scale is None else logit_scale.clamp(max=self.max_scale)
        given = {"log_temperature": -scale.log().reshape(1)}
        if logit_bias is not None:
            given["bias"] = logit_bias.reshape(1)
        value: Tensor = torch.func.functional_call(self.objective, given, (image_features, text_features))
        return {"contrastive_loss": value} if output_dict else value
