"""False negatives by the judgement of a guide: columns too similar to an anchor, seen by another model."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class GuideRule:
    """Which columns a guide drops: those it finds more similar to the anchor than a threshold t_i.

    With own_i the guide's cosine of the anchor and its positive: t_i = own_i - margin ("absolute"), or
    own_i - margin · |own_i| ("relative"). reads: the matrices the guide judges, "extra" for the extra negatives.
    """

    margin: float = 0.0
    strategy: str = "absolute"
    reads: tuple[str, ...] = ("cross", "same", "other", "extra")


DEFAULT_RULE = GuideRule()


@dataclass(frozen=True)
class Guide:
    """The guide's unit rows of each view and of the extra negatives, in the order of the batch's rows."""

    rows: tuple[Tensor, ...]  # (N, G) for each view, then (M, G)
    rule: GuideRule
    _memory: list[Tensor] = field(default_factory=list, repr=False)  # of the latest block's cosines

    def threshold(self, anchor: int, other: int) -> Tensor:
        """t_i (N,) for the anchors of one view, from the guide's cosine of each anchor with its positive.

        Cosines that differ by rounding alone count as equal, so that blocks of any size give the same mask.
        """
        own = (self.rows[anchor] * self.rows[other]).sum(dim=1)
        margin = self.rule.margin * (own.abs() if self.rule.strategy == "relative" else 1)
        return own - margin + 8 * torch.finfo(own.dtype).eps

    def dropped(self, view: int, block: slice, source: int, threshold: Tensor, out: Tensor) -> None:
        """Writes True where the cosine of a block of a view's rows with those of ``source`` is above the threshold."""
        rows, keys = self.rows[view][block], self.rows[source]
        cosines = torch.mm(rows, keys.T, out=self._block(len(rows), len(keys)))
        torch.gt(cosines, threshold[block].unsqueeze(1), out=out)

    def _block(self, rows: int, columns: int) -> Tensor:
        """Memory of a block, kept for the next one: fresh memory of this size costs a fifth of the product."""
        if not self._memory or self._memory[0].numel() < rows * columns:
            self._memory[:] = [self.rows[0].new_empty(rows * columns)]
        return self._memory[0][: rows * columns].view(rows, columns)

    def cosines(self, view: int, block: slice | Tensor, source: int) -> Tensor:
        """Cosines of a block of a view's rows, or of those of some indices, with those of ``source``: (B, M)."""
        return self.rows[view][block] @ self.rows[source].T
