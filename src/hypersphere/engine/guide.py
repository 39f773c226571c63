"""False negatives by the judgement of a guide: columns too similar to an anchor, seen by another model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.engine.inputs import GuideRule


@dataclass(frozen=True)
class Guide:
    """The guide's unit rows of each view and of the extra negatives, in the order of the batch's rows."""

    rows: tuple[Tensor, ...]  # (N, G) for each view, then (M, G)
    rule: GuideRule

    def threshold(self, anchor: int, other: int) -> Tensor:
        """t_i (N,) for the anchors of one view, from the guide's cosine of each anchor with its positive."""
        own = (self.rows[anchor] * self.rows[other]).sum(dim=1)
        margin = self.rule.margin * (own.abs() if self.rule.strategy == "relative" else 1)
        return own - margin

    def dropped(self, row: int, indices: Tensor, part: int, threshold: Tensor, out: Tensor) -> None:
        """Writes True where the cosine of some rows with the rows of ``part`` is above the threshold.

        Cosines that differ by rounding alone count as equal, so that blocks of any size give the same mask.
        """
        rounding = 8 * torch.finfo(threshold.dtype).eps
        torch.gt(self.cosines(row, indices, part), (threshold[indices] + rounding).unsqueeze(1), out=out)

    def cosines(self, row: int, block: slice | Tensor, part: int) -> Tensor:
        """Cosines of a block of rows, or of those of some indices, with the rows of ``part``: (B, M)."""
        return self.rows[row][block] @ self.rows[part].T
