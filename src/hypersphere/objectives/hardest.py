"""Objectives that see only the hardest negative of each anchor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, masked_max
from hypersphere.objectives.base import PairwiseObjective, like_negatives


def hinge(alignment: Tensor, energy: Tensor, exists: Tensor) -> Statistics:
    """max(0, alignment + energy), 0 where no negative ``exists``, and its two parts where it is not 0."""
    loss = torch.where(exists, torch.relu(alignment + energy), 0)
    active = loss.detach() > 0
    return {"loss": loss, "alignment": torch.where(active, alignment, 0), "energy": torch.where(active, energy, 0)}


class HardestObjective(PairwiseObjective):
    """An objective of the positive and of the largest negative similarity: define ``from_hardest``.

    The engine then takes the argmax itself, and needs one matrix product instead of three. A subclass that defines
    ``per_anchor`` or ``block`` is streamed through that method, like any other objective.
    """

    @property
    def monotone(self) -> bool:
        """Whether the nearest negative is the one with the largest similarity; False: see ``fallback``."""
        return True

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor | Statistics:
        """The loss, as ``per_anchor`` returns it, from the positives (B,) and the largest similarities (B,), which are
        -inf for an anchor without negatives; a tuple of them if ``negatives`` is a tuple."""
        raise TypeError(f"{type(self).__name__} must define from_hardest")

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Tensor | Statistics:
        """What ``per_anchor`` returns where the largest similarity is not the hardest."""
        raise TypeError(f"{type(self).__name__} needs more than the largest similarity and must define fallback")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor | Statistics:
        if not self.monotone:
            return self.fallback(positive, negatives, mask)
        if isinstance(negatives, Tensor):
            return self.from_hardest(positive, masked_max(negatives, mask))
        hardest = [masked_max(matrix, each) for matrix, each in zip(negatives, mask, strict=True)]
        return self.from_hardest(positive, tuple(hardest))

    def block_from_hardest(self, anchors: Anchors, hardest: tuple[Tensor, ...]) -> Statistics:
        return self.finish_block(self.from_hardest(anchors.positive, like_negatives(self, hardest)), anchors)

    @property
    def sees(self) -> Any:
        return "hardest" if self.monotone and self.defines("from_hardest") else "all"
