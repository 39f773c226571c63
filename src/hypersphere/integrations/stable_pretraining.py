"""Any objective in the call forms of stable-pretraining's contrastive losses.

loss = hs.integrations.stable_pretraining.Loss("infonce", temperature=0.07)
loss(anchors, candidates, targets).backward()
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


class Loss(nn.Module):
    """An objective called as NTXEntLoss and CLIPLoss are, on two views, or as InfoNCELoss is: N anchors against M
    candidates.

    "ntxent" equals NTXEntLoss, "infonce" InfoNCELoss, and "infonce" with symmetric=True CLIPLoss. gather=True
    contrasts with the rows of all processes, which theirs always do with two views.
    """

    def __init__(self, objective: str = "ntxent", **settings: Any) -> None:
        super().__init__()
        if "learnable" in settings:
            raise ValueError("a temperature is learned by whoever gives logit_scale: Loss takes no learnable")
        if objective == "infonce":
            settings.setdefault("temperature", 0.07)
        self.objective = create_with_callers_temperature("stable-pretraining", objective, **settings)

    def forward(
        self,
        anchors: Tensor,
        candidates: Tensor,
        targets: Tensor | None = None,
        mask: Tensor | None = None,
        logit_scale: Any = None,
    ) -> Tensor:
        """The loss of two views, or, if there are targets, of anchors (N, D) against candidates (M, D).

        targets: (N,) the index of each anchor's positive among the candidates.
        mask: (N, M) True at candidates that do not count.
        logit_scale: the temperature of this call: despite its name, similarities are divided by it. Learned if it
            requires a gradient.
        """
        require_tensor(anchors, "anchors", "rows (N, D)")
        require_positives(candidates, "candidates")
        views: tuple[Tensor, ...] = (anchors, candidates)
        given: dict[str, Any] = {}
        if targets is not None:
            views, given = _against(anchors, candidates, targets, mask)
        elif mask is not None:
            raise ValueError("a mask concerns anchors and candidates: give targets too")
        temperature = None
        if logit_scale is not None:
            temperature = as_number(logit_scale, "logit_scale", anchors, positive=True).log()
        loss: Tensor = call_at(self.objective, temperature, None, *views, **given)
        return loss


def _against(anchors: Tensor, candidates: Tensor, targets: Tensor, mask: Tensor | None) -> tuple[Any, dict[str, Any]]:
    """Each anchor with its positive, and all candidates as negatives but for those of the anchor's id, its target's."""
    size = len(candidates)
    require_tensor(targets, "targets", f"a tensor of {len(anchors)} whole numbers")
    if targets.shape != anchors.shape[:1] or targets.is_floating_point():
        raise ValueError(f"targets must be {len(anchors)} whole numbers, not {tuple(targets.shape)} {targets.dtype}")
    if ((targets < 0) | (targets >= size)).any():
        raise ValueError(f"targets must be below {size}, the number of candidates, and at least 0")
    given: dict[str, Any] = {"in_batch": False, "ids": targets, "negatives": candidates}
    given["ids_negatives"] = torch.arange(size, device=targets.device)
    if mask is not None:
        require_tensor(mask, "mask", f"{len(anchors)} × {size} booleans")
        if mask.shape != (len(anchors), size) or mask.dtype != torch.bool:
            raise ValueError(f"mask must be {len(anchors)} × {size} booleans, not {tuple(mask.shape)} {mask.dtype}")
        if mask.gather(1, targets.unsqueeze(1)).any():
            raise ValueError("mask must not be True at an anchor's own target")
        given["negatives"] = candidates.expand(len(anchors), *candidates.shape)
        given["ids_negatives"] = torch.where(mask, targets.unsqueeze(1), given["ids_negatives"])
    return (anchors, candidates[targets]), given
