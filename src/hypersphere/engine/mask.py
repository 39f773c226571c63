"""Which columns of a block count, and the passes over a block that carry no gradient.

A block's mask leaves out one or two columns of each row, and that of equal labels often holds for a few columns only.
Filling or reading a few entries is many times as fast as testing the mask at every entry of a block, so masks keep the
positions of their few exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.torch_internals import version_of

CACHED_ELEMENTS = 2**19  # so many numbers stay in the nearest cache between two operations
COUNTED_ROWS = 64
CHUNK = 256  # columns


@dataclass(frozen=True)
class Diagonals:
    """The entries (i, start + i) of a block, for each of some starts: its rows with their own instances.

    They are filled without a tensor of indices, whose use costs more than the fill itself.
    """

    starts: tuple[int, ...]


# Entries of a block by their positions: diagonals, or the row and the column of each. Or any entries: a mask (B, M).
Positions = Diagonals | tuple[Tensor, Tensor]
Entries = Positions | Tensor


def fill_entries(matrix: Tensor, entries: Entries, value: float) -> Tensor:
    """Writes a value into some entries of a block."""
    if isinstance(entries, Diagonals):
        for start in entries.starts:
            matrix.diagonal(start).fill_(value)
    elif isinstance(entries, Tensor):
        matrix.masked_fill_(entries, value)
    else:
        matrix[entries] = value
    return matrix


@dataclass(frozen=True)
class _Exceptions:
    """The entries where a mask has the value ``holds``; it has the opposite value everywhere else."""

    entries: Positions
    holds: bool
    version: int  # of the mask when it was made


def mask_except(entries: Positions, shape: tuple[int, int], holds: bool, device: torch.device) -> Tensor:
    """A boolean mask that is ``holds`` at these entries, each given once, and the opposite elsewhere."""
    mask = fill_entries(torch.full(shape, not holds, dtype=torch.bool, device=device), entries, holds)
    version = version_of(mask)
    if version is not None:
        mask._exceptions = _Exceptions(entries, holds, version)  # type: ignore[attr-defined]
    return mask


def _exceptions(mask: Tensor) -> _Exceptions | None:
    """The exceptions that a mask was made of, if they are known and it was not changed since."""
    known: _Exceptions | None = getattr(mask, "_exceptions", None)
    return known if known is not None and known.version == version_of(mask) else None


def known_to_hold(mask: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rows and columns of all entries where the mask holds, if they are known and few."""
    known = _exceptions(mask)
    if known is None or not known.holds or isinstance(known.entries, Diagonals):
        return None
    return known.entries


def filled_outside(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """A copy of x (B, M) with ``value`` where the mask does not hold; carries no gradient."""
    x, known = x.detach(), _exceptions(mask)
    if known is None or x.shape != mask.shape:
        return torch.where(mask, x, value)
    if not known.holds:
        return fill_entries(x.clone(memory_format=torch.contiguous_format), known.entries, value)
    if isinstance(known.entries, Diagonals):
        return torch.where(mask, x, value)
    out = x.new_full(mask.shape, value)
    out[known.entries] = x[known.entries]
    return out


def fill_outside(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """The same in place."""
    known = _exceptions(mask)
    if known is None or known.holds or x.shape != mask.shape:
        return x.masked_fill_(~mask, value)
    return fill_entries(x, known.entries, value)


def count(mask: Tensor) -> Tensor:
    """How many columns count in each row: (B, M) -> (B,)."""
    known = _exceptions(mask)
    if known is None:
        # int32 is five times as fast as the default int64; a few rows at a time, because torch copies them to this type
        counts = [rows.sum(dim=1, dtype=torch.int32) for rows in mask.split(COUNTED_ROWS)]
        return counts[0] if len(counts) == 1 else torch.cat(counts)
    if isinstance(known.entries, Diagonals):  # so many in each row
        num_exceptions = len(known.entries.starts)
        num_columns = num_exceptions if known.holds else mask.shape[1] - num_exceptions
        return torch.full(mask.shape[:1], num_columns, dtype=torch.int32, device=mask.device)
    exceptions_per_row = torch.bincount(known.entries[0], minlength=len(mask)).to(torch.int32)
    return exceptions_per_row if known.holds else mask.shape[1] - exceptions_per_row


# ------------------------------------------------------------------------------------------------- passes over a block


def argmax(x: Tensor) -> Tensor:
    """The column of the largest entry of each row: (B, M) -> (B, 1).

    It finds the best chunk first, then the column in it: on a CPU several times as fast as torch's own argmax.
    """
    columns, whole = x.shape[1], x.shape[1] - x.shape[1] % CHUNK
    if columns < 2 * CHUNK:
        return x.argmax(dim=1, keepdim=True)
    best = x[:, :whole].unflatten(1, (-1, CHUNK)).amax(dim=2)
    if whole < columns:
        best = torch.cat([best, x[:, whole:].amax(dim=1, keepdim=True)], dim=1)
    candidates = best.argmax(dim=1, keepdim=True) * CHUNK + torch.arange(CHUNK, device=x.device)
    candidates = candidates.clamp_max(columns - 1)
    column: Tensor = candidates.gather(1, x.gather(1, candidates).argmax(dim=1, keepdim=True))
    return column


def rows_in_cache(x: Tensor) -> int:
    """Rows of a matrix that stay in a processor's cache between two operations; on other devices all of them."""
    return max(1, CACHED_ELEMENTS // max(1, x.shape[1]) if x.is_cpu else len(x))
