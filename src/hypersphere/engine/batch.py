"""The batch of all processes as unit rows, and which of its rows each similarity matrix reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from hypersphere.engine.distributed import Shard, agree_on_shapes, gather_rows, world_size
from hypersphere.engine.mask import mask_except
from hypersphere.engine.objective import Anchors, PairContract, Read, RowContract
from hypersphere.engine.validation import check_size, check_views
from hypersphere.geometry import normalize, require_finite, widened
from hypersphere.geometry.near import MatrixDistances, PairDistances, with_vectors


@dataclass(frozen=True)
class Batch:
    """Two views (N, D) and extra negatives (M, D), normalised, of all processes together."""

    rows: tuple[Tensor, Tensor, Tensor]  # z1, z2, negatives
    labels: Tensor | None  # (N,)
    shard: Shard  # of the instances
    extra: Shard  # of the negatives
    requests: list[list[int]]  # by rank: the numbers each process sent along when the batch was assembled

    @property
    def size(self) -> int:
        return self.shard.total

    def shard_of(self, index: int) -> Shard:
        """The shard of z1, z2 or the negatives."""
        return self.extra if index == 2 else self.shard

    @cached_property
    def classes(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The instances sorted by label, and for each instance: where its label begins in that order, how many
        instances have it (0 for an unlabelled one), and its rank among them."""
        assert self.labels is not None
        labels = self.labels.contiguous()
        known, order = labels.sort()
        first, last = (torch.searchsorted(known, labels, right=right) for right in (False, True))
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device)) - first
        return order, first, torch.where(labels >= 0, last - first, 0), rank


def assemble(
    objective: RowContract,
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None,
    negatives: Tensor | None,
    requests: list[int] | None = None,
) -> tuple[Batch, list[Tensor]]:
    """The batch of all processes, and the inverse norms of this process's z1, z2 and negatives.

    requests: a few numbers that every process sends to every other.
    """
    check_views(z1, z2, labels, negatives)
    given = [z1, z2] if negatives is None else [z1, z2, negatives]
    if torch.float64 in [z.dtype for z in given]:
        given = [widened(z).double() for z in given]
    pairs = [_unit_rows(objective, z, name) for z, name in zip(given, ("z1", "z2", "negatives"), strict=False)]
    if negatives is None:
        pairs.append((pairs[0][0].detach()[:0], pairs[0][1][:0]))
    first, second, extra = (rows for rows, _ in pairs)
    labels = None if labels is None else labels.long()
    if world_size(objective.gather) == 1:
        shard, extra_shard, everyone = Shard((len(z1),), 0), Shard((len(extra),), 0), [requests or []]
    else:
        shard, extra_shard, everyone = agree_on_shapes(first, labels, extra, requests or [])
        first, second, extra = (
            gather_rows(rows.detach(), of) for rows, of in ((first, shard), (second, shard), (extra, extra_shard))
        )
        labels = None if labels is None else gather_rows(labels, shard)
    check_size(objective, shard.total)
    return Batch((first, second, extra), labels, shard, extra_shard, everyone), [inverse for _, inverse in pairs]


def _unit_rows(objective: RowContract, z: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The rows the objective works on, and their inverse norms if it works on unit rows."""
    if objective.rows is None:
        return normalize(z, name)
    require_finite(z, name)
    return objective.rows(z), z.new_empty(0)


def directions(objective: PairContract, batch: Batch) -> list[Direction]:
    """The views that are anchors, each with the other one as its keys."""
    views = (0, 1) if objective.anchors == "both" else (0,)
    return [Direction(batch, anchor, anchor == 0 or objective.extra_negatives == "both") for anchor in views]


@dataclass(frozen=True)
class Direction:
    """One view as the anchors, the other as their keys."""

    batch: Batch
    anchor: int  # 0 or 1
    extra: bool = True  # whether its anchors meet the extra negatives

    @property
    def other(self) -> int:
        return 1 - self.anchor

    @property
    def num_extra(self) -> int:
        return len(self.batch.rows[2]) if self.extra else 0

    def local(self, block: slice) -> slice:
        """A block of the batch's rows, counted from the first row of this process."""
        start = self.batch.shard.start
        return slice(block.start - start, block.stop - start)

    # ------------------------------------------------------------------------------------------- rows and columns

    def sources(self, read: Read) -> tuple[int, tuple[int, ...]]:
        """The index of a matrix's rows in ``batch.rows``, and the indices of its columns."""
        x, y, extra = self.anchor, self.other, ((2,) if self.num_extra else ())
        layout: dict[Read, tuple[int, tuple[int, ...]]] = {
            "cross": (x, (y, *extra)),
            "same": (x, (x, *extra)),
            "other": (y, (y, *extra)),
            "both": (x, (y, x, *extra)),
        }
        return layout[read]

    def num_columns(self, read: Read) -> int:
        return sum(len(self.batch.rows[part]) for part in self.sources(read)[1])

    def columns(self, read: Read) -> Iterator[tuple[int, slice]]:
        """The parts of a matrix's columns: their index in ``batch.rows``, and where they stand in the matrix."""
        first = 0
        for part in self.sources(read)[1]:
            yield part, slice(first, first := first + len(self.batch.rows[part]))

    # -------------------------------------------------------------------------------------------------------- masks

    def num_own(self, columns: int) -> int:
        """How many columns belong to the anchor's own instance: 1, or 2 of "both"."""
        return (columns - self.num_extra) // self.batch.size

    def own(self, indices: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """The entries of the anchors' own instances in a block of these anchors (B,): (B, 1) and (B, 1 or 2)."""
        line, own = torch.arange(len(indices), device=indices.device).unsqueeze(1), indices.unsqueeze(1)
        return line, own if self.num_own(columns) == 1 else torch.cat([own, own + self.batch.size], dim=1)

    def mask(self, indices: Tensor, columns: int) -> Tensor:
        """True where a column is a negative of the anchor: of another instance."""
        return mask_except(*self.own(indices, columns), (len(indices), columns), holds=False)

    def same_label(self, indices: Tensor, columns: int) -> Tensor:
        """True at other instances that share the anchor's label."""
        order, first, size, rank = self.batch.classes
        sizes = size[indices]
        if 8 * int(sizes.sum()) > len(indices) * self.batch.size:  # too many to be listed
            return self._same_label_among_all(indices, columns)
        sizes = (sizes - 1).clamp_min_(0)  # without itself
        line = torch.repeat_interleave(torch.arange(len(indices), device=indices.device), sizes)
        within = torch.arange(len(line), device=indices.device) - (sizes.cumsum(0) - sizes)[line]
        members = order[first[indices][line] + within + (within >= rank[indices][line])]
        views = range(self.num_own(columns))
        column = torch.cat([members + view * self.batch.size for view in views])
        return mask_except(line.repeat(len(views)), column, (len(indices), columns), holds=True)

    def _same_label_among_all(self, indices: Tensor, columns: int) -> Tensor:
        labels = self.batch.labels
        assert labels is not None
        unknown = labels.new_full((self.num_extra,), -1)
        of_columns = torch.cat([labels] * self.num_own(columns) + [unknown])
        own = torch.where(labels >= 0, labels, torch.iinfo(labels.dtype).min)[indices]  # unlabelled: equals nothing
        same = own.unsqueeze(1) == of_columns
        same[self.own(indices, columns)] = False
        return same

    # ------------------------------------------------------------------------------------- what an objective is given

    def anchors(
        self,
        objective: PairContract,
        block: slice,
        x: Tensor,
        y: Tensor,
        positive: Tensor,
        matrices: list[Tensor],
        context: object,
    ) -> Anchors:
        """The anchors of a block of rows; no matrices and no masks where the objective sees only a summary of them."""
        indices = torch.arange(block.start, block.stop, device=x.device)
        widths = [matrix.shape[1] for matrix in matrices]
        masks = {width: self.mask(indices, width) for width in widths}
        same = {width: self.same_label(indices, width) for width in widths} if objective.labelled else {}
        labels = self.batch.labels
        if objective.rows is None and objective.metric(x) is None:
            with_vectors(positive, PairDistances(x.detach(), y.detach()))
            for read, matrix in zip(objective.reads, matrices, strict=False):
                with_vectors(matrix, self.distances(read, block, indices))
        return Anchors(
            rows=x,
            others=y,
            indices=indices,
            positive=positive,
            negatives=tuple(matrices),
            masks=tuple(masks[width] for width in widths),
            same_label=tuple(same[width] for width in widths) if objective.labelled else None,
            labels=None if labels is None else labels[indices],
            context=context,
        )

    def distances(self, read: Read, block: slice, indices: Tensor) -> MatrixDistances:
        """Squared distances of a block of a matrix's rows to its columns, to all digits."""
        row, parts = self.sources(read)
        keys = tuple(self.batch.rows[part].detach() for part in parts)
        own = partial(self.own, indices, sum(map(len, keys)))
        return MatrixDistances(self.batch.rows[row][block].detach(), keys, own)


def apply_metric(objective: PairContract, rows: Tensor) -> Tensor:
    """Rows ready for an inner product: times the objective's metric, if it has one."""
    metric = objective.metric(rows)
    return rows if metric is None else rows * metric


def positives(objective: PairContract, x: Tensor, y: Tensor) -> Tensor:
    """x_i·y_i: (B, D), (B, D) -> (B,)."""
    return (apply_metric(objective, x) * y).sum(dim=1)
