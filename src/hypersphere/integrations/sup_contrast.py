"""Supervised contrastive learning in the call form of its authors' code, SupContrast.

loss = hs.integrations.sup_contrast.Loss(temperature=0.07, contrast_mode="all")
loss(torch.stack([z1, z2], dim=1), labels).backward()
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.integrations.call_forms import require_tensor
from hypersphere.objectives import create_objective


class Loss(nn.Module):
    """``supcon`` called as SupConLoss is, on features (N, V, D) of V views.

    contrast_mode: the anchors are the rows of "all" views, or of "one", the first; the keys are all rows.
    base_temperature: the loss is multiplied by temperature / base_temperature.
    A label of -1 is an unknown one, unlike there: the row's positives are its other views.
    """

    def __init__(
        self,
        temperature: float = 0.07,
        contrast_mode: str = "all",
        base_temperature: float = 0.07,
        **settings: Any,
    ) -> None:
        super().__init__()
        if contrast_mode not in ("all", "one"):
            raise ValueError(f"contrast_mode must be 'all' or 'one', not {contrast_mode!r}")
        if not base_temperature > 0:
            raise ValueError(f"base_temperature must be above 0, not {base_temperature!r}")
        self.contrast_mode, self.base_temperature = contrast_mode, base_temperature
        anchors = {"all": "both", "one": "first"}[contrast_mode]
        self.objective: Any = create_objective("supcon", temperature=temperature, anchors=anchors, **settings)

    def forward(self, features: Tensor, labels: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """The loss; mask: (N, N), 1 where two instances are of one class, instead of labels."""
        require_tensor(features, "features", "(N, V, D), rows of V views")
        for name, given, meaning in (("labels", labels, "(N,) whole numbers"), ("mask", mask, "(N, N)")):
            if given is not None:
                require_tensor(given, name, f"a tensor {meaning}")
        if features.ndim < 3:
            raise ValueError(f"features must be (N, V, D), rows of V views, not {tuple(features.shape)}")
        if labels is not None and mask is not None:
            raise ValueError("give labels or a mask, not both")
        if labels is not None:
            labels = labels.reshape(-1)
            if len(labels) != len(features):
                raise ValueError(f"labels must be {len(features)} whole numbers, not {len(labels)}")
        if mask is not None:
            labels = _classes(mask, len(features))
        views = features.flatten(2).unbind(dim=1)
        loss: Tensor
        if len(views) == 1:
            loss = self.objective(views[0], labels=labels)
        elif len(views) == 2:
            loss = self.objective(*views, labels=labels)
        else:
            loss = self._many(views, labels)
        factor: Any = self.objective.temperature / self.base_temperature
        scaled: Tensor = loss * factor
        return scaled

    def _many(self, views: tuple[Tensor, ...], labels: Tensor | None) -> Tensor:
        """Three or more views as one view, in which the views of an instance are of one class."""
        if self.contrast_mode == "one":
            raise ValueError(f"contrast_mode 'one' takes one or two views, not {len(views)}")
        if self.objective.gather is not False:
            raise ValueError(
                f"gather takes one or two views, not {len(views)}: instances would need names of their own"
            )
        classes = torch.arange(len(views[0]), device=views[0].device)
        if labels is not None:
            classes = torch.where(labels < 0, classes + 1 + labels.max().clamp_min(0), labels)
        loss: Tensor = self.objective(torch.cat(views), labels=classes.repeat(len(views)))
        return loss


def _classes(mask: Tensor, size: int) -> Tensor:
    """Labels such that two instances share one where the mask is 1."""
    if mask.shape != (size, size):
        raise ValueError(f"mask must be {size} × {size}, not {tuple(mask.shape)}")
    same = mask.bool()
    labels = same.int().argmax(dim=1)  # the first instance of the class
    if not torch.equal(same, labels.unsqueeze(1) == labels):
        raise ValueError("mask must be that of classes: 1 where two instances share one, the diagonal included")
    return labels
