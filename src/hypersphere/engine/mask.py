"""Masks that keep the positions of their few exceptions.

A block's mask leaves out one or two columns of each row, and that of equal labels often holds for a few
columns only. Filling or reading a few entries is many times as fast as testing the mask at every entry of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

COUNTED_ROWS = 64


@dataclass(frozen=True)
class _Places:
    """The entries where a mask has the value ``holds``; it has the opposite value everywhere else."""

    rows: Tensor
    columns: Tensor
    holds: bool
    version: int  # of the mask when it was made: one that was changed since is like any other


def mask_except(rows: Tensor, columns: Tensor, shape: tuple[int, int], holds: bool) -> Tensor:
    """A boolean mask that is ``holds`` at these entries, each given once, and the opposite elsewhere."""
    mask = torch.full(shape, not holds, dtype=torch.bool, device=columns.device)
    mask[rows, columns] = holds
    if not mask.is_inference():
        mask._places = _Places(rows, columns, holds, mask._version)  # type: ignore[attr-defined]
    return mask


def _places(mask: Tensor) -> _Places | None:
    known: _Places | None = getattr(mask, "_places", None)
    return known if known is not None and known.version == mask._version else None


def known_to_hold(mask: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rows and columns of all entries where the mask holds, if they are known and few."""
    known = _places(mask)
    return (known.rows, known.columns) if known is not None and known.holds else None


def known_not_to_hold(mask: Tensor) -> tuple[Tensor, Tensor] | None:
    """The same for all entries where it does not hold."""
    known = _places(mask)
    return (known.rows, known.columns) if known is not None and not known.holds else None


def filled(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """A copy of x (B, M) with ``value`` where the mask does not hold; carries no gradient."""
    x, known = x.detach(), _places(mask)
    if known is None or x.shape != mask.shape:
        return torch.where(mask, x, value)
    if not known.holds:
        return fill(x.clone(memory_format=torch.contiguous_format), mask, value)
    out = x.new_full(mask.shape, value)
    out[known.rows, known.columns] = x[known.rows, known.columns]
    return out


def fill(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """The same in place."""
    known = _places(mask)
    if known is None or known.holds or x.shape != mask.shape:
        return x.masked_fill_(~mask, value)
    x[known.rows, known.columns] = value
    return x


def count(mask: Tensor) -> Tensor:
    """How many columns count in each row: (B, M) -> (B,)."""
    known = _places(mask)
    if known is None:
        # int32 is five times as fast as the default int64; a few rows at a time, because torch copies them to this type
        few = [each.sum(dim=1, dtype=torch.int32) for each in mask.split(COUNTED_ROWS)]
        return few[0] if len(few) == 1 else torch.cat(few)
    if known.columns.shape[:-1] == mask.shape[:1] and known.rows.shape == (len(mask), 1):  # so many in each row
        exceptions = known.columns.shape[1]
        number = exceptions if known.holds else mask.shape[1] - exceptions
        return torch.full(mask.shape[:1], number, dtype=torch.int32, device=mask.device)
    rows = known.rows.expand_as(known.columns).flatten()
    exceptions_per_row = torch.bincount(rows, minlength=len(mask)).to(torch.int32)
    return exceptions_per_row if known.holds else mask.shape[1] - exceptions_per_row
