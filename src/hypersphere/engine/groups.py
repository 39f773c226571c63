"""Rows that share a whole number: a label, or an id. A negative number is shared with nobody."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """The rows (M,) by their keys, so that those of a given key are listed without a comparison with all."""

    keys: Tensor  # (M,)

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        known, order = self.keys.contiguous().sort()
        return known, order

    def _ranges(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Where the rows of each key (B,) begin in the sorted order, and how many they are."""
        known, _ = self._sorted
        first, last = (torch.searchsorted(known, keys, right=right) for right in (False, True))
        return first, torch.where(keys >= 0, last - first, 0)

    def sizes(self, keys: Tensor) -> Tensor:
        """How many rows have each of the keys: (B,) -> (B,)."""
        return self._ranges(keys)[1]

    def members(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """All pairs (i, j), as two vectors, of a place i in ``keys`` and a row j with that key."""
        first, sizes = self._ranges(keys)
        line = torch.repeat_interleave(torch.arange(len(keys), device=keys.device), sizes)
        within = torch.arange(len(line), device=keys.device) - (sizes.cumsum(0) - sizes)[line]
        return line, self._sorted[1][first[line] + within]

    def others(self, block: slice) -> tuple[Tensor, Tensor]:
        """All pairs (i, j) of a row i, counted from the first of a block, and another row j with its key."""
        line, member = self.members(self.keys[block])
        different = member != line + block.start
        return line[different], member[different]

    def are_few(self, keys: Tensor) -> bool:
        """Whether the rows of each key (B,) are better listed than marked in a mask: they are few, and their number
        need not be asked of a device."""
        return keys.is_cpu and 8 * int(self.sizes(keys).sum()) <= len(keys) * len(self.keys)

    def equal(self, keys: Tensor) -> Tensor:
        """True where a row has the key: (B,) -> (B, M)."""
        return (keys.unsqueeze(1) == self.keys) & (keys >= 0).unsqueeze(1)
