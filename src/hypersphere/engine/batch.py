"""The batch of all processes as unit rows, and which of its rows each similarity matrix reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from hypersphere.engine.distributed import Shard, agree_on_shapes, gather_rows, world_size
from hypersphere.engine.groups import Groups
from hypersphere.engine.guide import Guide
from hypersphere.engine.inputs import Inputs
from hypersphere.engine.mask import count, mask_except
from hypersphere.engine.objective import Anchors, PairContract, Read, RowContract
from hypersphere.engine.validation import check_inputs, check_size
from hypersphere.geometry import normalize, require_finite, widened
from hypersphere.geometry.near import MatrixDistances, PairDistances, with_vectors

# Entries of a block: their rows and columns, or a mask (B, M).
Entries = tuple[Tensor, Tensor] | Tensor


@dataclass(frozen=True)
class Batch:
    """The views (N, D) and the extra negatives (M, D), normalised, of all processes together."""

    rows: tuple[Tensor, ...]  # z1, z2, further views, and last the negatives
    labels: Groups | None  # of the instances
    scores: Tensor | None  # (N,) of the pairs of views
    ids: Groups | None
    extra_ids: Groups | None
    guide: Guide | None
    shard: Shard  # of the instances
    extra: Shard  # of the negatives
    requests: list[list[int]]  # by rank: the numbers each process sent along when the batch was assembled

    @property
    def size(self) -> int:
        return self.shard.total

    @property
    def num_views(self) -> int:
        return len(self.rows) - 1

    @property
    def num_extra(self) -> int:
        return len(self.rows[-1])

    @property
    def judge(self) -> Guide | None:
        """The guide, if it drops columns."""
        return self.guide if self.guide is not None and self.guide.rule.reads else None

    def shard_of(self, index: int) -> Shard:
        """The shard of a view or of the negatives."""
        return self.extra if index == self.num_views else self.shard


def assemble(objective: RowContract, inputs: Inputs, requests: list[int] | None = None) -> tuple[Batch, list[Tensor]]:
    """The batch of all processes, and the inverse norms of this process's views and negatives.

    requests: a few numbers that every process sends to every other.
    """
    check_inputs(inputs)
    given = [*inputs.all_views, *([] if inputs.negatives is None else [inputs.negatives])]
    names = [*(f"z{number}" for number in range(1, len(inputs.all_views) + 1)), "negatives"]
    if torch.float64 in [z.dtype for z in given]:
        given = [widened(z).double() for z in given]
    pairs = [_unit_rows(objective, z, name) for z, name in zip(given, names, strict=False)]
    if inputs.negatives is None:
        pairs.append((pairs[0][0].detach()[:0], pairs[0][1][:0]))
    inverses = [inverse for _, inverse in pairs]
    rows, labels = [rows for rows, _ in pairs], None if inputs.labels is None else inputs.labels.long()
    scores = (
        None
        if inputs.scores is None
        else inputs.scores.detach().to(torch.promote_types(inputs.scores.dtype, torch.float32))
    )
    ids, extra_ids, guide = _known_negatives(inputs)
    if world_size(objective.gather) == 1:
        shard, extra, everyone = Shard((len(rows[0]),), 0), Shard((len(rows[-1]),), 0), [requests or []]
    else:
        shard, extra, everyone = agree_on_shapes(rows, labels, ids, guide, scores, requests or [])
        rows = [gather_rows(each.detach(), shard) for each in rows[:-1]] + [gather_rows(rows[-1].detach(), extra)]
        labels, ids, scores = (None if each is None else gather_rows(each, shard) for each in (labels, ids, scores))
        extra_ids = None if extra_ids is None else gather_rows(extra_ids, extra)
        guide = [gather_rows(each, shard) for each in guide[:-1]] + [gather_rows(each, extra) for each in guide[-1:]]
    check_size(objective, shard.total)
    batch = Batch(
        rows=tuple(rows),
        labels=None if labels is None else Groups(labels),
        scores=scores,
        ids=None if ids is None else Groups(ids),
        extra_ids=None if extra_ids is None else Groups(extra_ids),
        guide=Guide(tuple(guide), inputs.rule) if guide else None,
        shard=shard,
        extra=extra,
        requests=everyone,
    )
    return batch, inverses


def _unit_rows(objective: RowContract, z: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The rows the objective works on, and their inverse norms if it works on unit rows."""
    if objective.rows is None:
        return normalize(z, name)
    require_finite(z, name)
    return objective.rows(z), z.new_empty(0)


@torch.no_grad()
def _known_negatives(inputs: Inputs) -> tuple[Tensor | None, Tensor | None, list[Tensor]]:
    """This process's ids of instances and of extra negatives, and the guide's unit rows of each view and of them."""
    num_extra = 0 if inputs.negatives is None else len(inputs.negatives)
    ids = extra_ids = None
    if inputs.ids is not None:
        ids, unknown = inputs.ids.long(), inputs.ids.new_full((num_extra,), -1)
        extra_ids = (unknown if inputs.ids_negatives is None else inputs.ids_negatives).long()
    if inputs.guide is None:
        return ids, extra_ids, []
    guides = (inputs.guide,) * len(inputs.all_views) if isinstance(inputs.guide, Tensor) else inputs.guide
    extra = guides[0][:0] if inputs.guide_negatives is None else inputs.guide_negatives
    unit_rows = [normalize(each, "guide")[0] for each in (*guides, extra)]
    wide = torch.float64 if torch.float64 in [each.dtype for each in unit_rows] else torch.float32
    return ids, extra_ids, [each.to(wide) for each in unit_rows]


def directions(objective: PairContract, batch: Batch) -> list[Direction]:
    """The views that are anchors, each with the others as its keys."""
    views = range(batch.num_views) if objective.anchors == "both" else (0,)
    with_extra = tuple(read for read in objective.reads if read not in objective.without_extra)
    met = [anchor == 0 or objective.extra_negatives == "both" for anchor in views]
    return [Direction(batch, anchor, with_extra if meets else ()) for anchor, meets in zip(views, met, strict=True)]


@dataclass(frozen=True)
class Direction:
    """One view as the anchors, the others as their keys."""

    batch: Batch
    anchor: int  # the index of the view
    with_extra: tuple[Read, ...]  # the matrices whose last columns are the extra negatives

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The other views, in turn from the anchors' on."""
        views = self.batch.num_views
        return tuple((self.anchor + step) % views for step in range(1, views))

    @property
    def other(self) -> int:
        """The view of the positives: the next one."""
        return self.others[0]

    def num_extra(self, read: Read) -> int:
        """How many columns of a matrix are extra negatives."""
        return self.batch.num_extra if read in self.with_extra else 0

    def local(self, block: slice) -> slice:
        """A block of the batch's rows, counted from the first row of this process."""
        start = self.batch.shard.start
        return slice(block.start - start, block.stop - start)

    def views(self, block: slice) -> list[Tensor]:
        """A block of rows in all views, without gradient."""
        return [rows[block].detach() for rows in self.batch.rows[:-1]]

    def moving(self, objective: PairContract) -> list[bool]:
        """Which tensors of a block carry a gradient: each view, the positives, each matrix. In a one-sided objective
        only the anchors' rows, the positives, and the matrices whose rows are the anchors."""
        rows = [*range(self.batch.num_views), self.anchor, *(self.sources(read)[0] for read in objective.reads)]
        return [not objective.one_sided or row == self.anchor for row in rows]

    # ------------------------------------------------------------------------------------------- rows and columns

    def sources(self, read: Read) -> tuple[int, tuple[int, ...]]:
        """The index of a matrix's rows in ``batch.rows``, and the indices of its columns."""
        return self._layout[read]

    @cached_property
    def _layout(self) -> dict[Read, tuple[int, tuple[int, ...]]]:
        x, y = self.anchor, self.other
        parts: dict[Read, tuple[int, tuple[int, ...]]] = {
            "cross": (x, self.others),
            "same": (x, (x,)),
            "other": (y, (y,)),
            "both": (x, (*self.others, x)),
        }
        extra = (self.batch.num_views,)
        return {
            read: (row, columns + extra if self.num_extra(read) else columns) for read, (row, columns) in parts.items()
        }

    def num_columns(self, read: Read) -> int:
        return sum(len(self.batch.rows[part]) for part in self.sources(read)[1])

    def columns(self, read: Read) -> Iterator[tuple[int, slice]]:
        """The parts of a matrix's columns: their index in ``batch.rows``, and where they stand in the matrix."""
        first = 0
        for part in self.sources(read)[1]:
            yield part, slice(first, first := first + len(self.batch.rows[part]))

    # ---------------------------------------------------------------------------------- which columns are negatives

    def num_own(self, read: Read) -> int:
        """How many columns belong to the anchor's own instance: one for each view that is read."""
        return len([part for part in self.sources(read)[1] if part < self.batch.num_views])

    def own(self, indices: Tensor, read: Read) -> tuple[Tensor, Tensor]:
        """The entries of the anchors' own instances in a block of these anchors (B,): (B, 1) and (B, views read)."""
        line, own = torch.arange(len(indices), device=indices.device).unsqueeze(1), indices.unsqueeze(1)
        views = range(1, self.num_own(read))
        return line, torch.cat([own, *(own + view * self.batch.size for view in views)], dim=1) if views else own

    def excluded(self, read: Read, indices: Tensor) -> Entries:
        """The entries of a block that are no negatives of their anchors: those of the own instance, of equal ids, and
        those that the guide drops. Rows and columns of the entries, or a mask (B, M) if they cannot be listed."""
        batch, columns = self.batch, self.num_columns(read)
        own = self.own(indices, read)
        if batch.ids is None and batch.judge is None:
            return own
        if batch.judge is None and not self._many_equal_ids(indices):
            return self._listed(read, indices, own)
        mask = torch.zeros(len(indices), columns, dtype=torch.bool, device=indices.device)
        if batch.judge is not None and len(indices):
            self._mark_dropped(read, slice(int(indices[0]), int(indices[-1]) + 1), batch.judge, mask)
        if batch.ids is not None:
            for part, place in self.columns(read):
                mask[:, place] |= self._ids_of(part).equal(batch.ids.keys[indices])
        mask[own] = True
        return mask

    def _ids_of(self, part: int) -> Groups:
        ids = self.batch.extra_ids if part == self.batch.num_views else self.batch.ids
        assert ids is not None
        return ids

    def _many_equal_ids(self, indices: Tensor) -> bool:
        ids = self.batch.ids
        assert ids is not None
        return 8 * int(ids.sizes(ids.keys[indices]).sum()) > len(indices) * self.batch.size

    def _listed(self, read: Read, indices: Tensor, own: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Rows and columns of the own instances and of equal ids, each entry once."""
        assert self.batch.ids is not None
        keys = self.batch.ids.keys[indices]
        entries = [(own[0].expand_as(own[1]).flatten(), own[1].flatten())]
        for part, place in self.columns(read):
            line, member = self._ids_of(part).members(keys)
            if part != self.batch.num_views:
                different = member != indices[line]
                line, member = line[different], member[different]
            entries.append((line, member + place.start))
        return torch.cat([line for line, _ in entries]), torch.cat([column for _, column in entries])

    def _mark_dropped(self, read: Read, block: slice, guide: Guide, mask: Tensor) -> None:
        row, _ = self.sources(read)
        for part, place in self.columns(read):
            kind = (
                "extra"
                if part == self.batch.num_views
                else "cross"
                if part != row
                else ("other", "same")[row == self.anchor]
            )
            if kind in guide.rule.reads:
                guide.dropped(row, block, part, self._threshold, mask[:, place])

    @cached_property
    def _threshold(self) -> Tensor:
        assert self.batch.guide is not None
        return self.batch.guide.threshold(self.anchor, self.other)

    def num_negatives(self, read: Read, indices: Tensor, excluded: Entries) -> Tensor:
        """How many columns of a matrix are negatives of each anchor, from what ``excluded`` returned: (B,) -> (B,)."""
        columns = self.num_columns(read)
        if isinstance(excluded, Tensor):
            return columns - count(excluded)
        return self.num_by_ids(read, indices)

    def num_by_ids(self, read: Read, indices: Tensor) -> Tensor:
        """The same where no guide drops any, without a look at the columns."""
        batch, columns = self.batch, self.num_columns(read)
        num_own = self.num_own(read)
        num = torch.full_like(indices, columns - num_own)
        if batch.ids is not None:
            keys = batch.ids.keys[indices]
            num -= num_own * (batch.ids.sizes(keys) - 1).clamp_min(0)
            num -= self._ids_of(batch.num_views).sizes(keys) if self.num_extra(read) else 0
        return num

    def mask(self, read: Read, indices: Tensor) -> Tensor:
        """True where a column is a negative of the anchor."""
        excluded = self.excluded(read, indices)
        if isinstance(excluded, Tensor):
            return ~excluded
        return mask_except(*excluded, (len(indices), self.num_columns(read)), holds=False)

    def same_label(self, read: Read, indices: Tensor) -> Tensor:
        """True at other instances that share the anchor's label."""
        labels = self.batch.labels
        assert labels is not None
        keys, views = labels.keys[indices], range(self.num_own(read))
        if 8 * int(labels.sizes(keys).sum()) > len(indices) * self.batch.size:  # too many to be listed
            same = torch.cat([labels.equal(keys)] * len(views), dim=1)
            same = pad(same, (0, self.num_extra(read)), value=False)
            same[self.own(indices, read)] = False
            return same
        line, member = labels.members(keys)
        line, member = line[member != indices[line]], member[member != indices[line]]
        column = torch.cat([member + view * self.batch.size for view in views])
        return mask_except(line.repeat(len(views)), column, (len(indices), self.num_columns(read)), holds=True)

    # ------------------------------------------------------------------------------------- what an objective is given

    def anchors(
        self,
        objective: PairContract,
        block: slice,
        views: Sequence[Tensor],
        positive: Tensor,
        matrices: list[Tensor],
        context: object,
    ) -> Anchors:
        """The anchors of a block of rows, which ``views`` holds in every view; no matrices and no masks where the
        objective sees only a summary of them."""
        x, y = views[self.anchor], views[self.other]
        indices = torch.arange(block.start, block.stop, device=x.device)
        reads = objective.reads if matrices else ()
        masks = self._masks(reads, indices)
        same = [self.same_label(read, indices) for read in reads] if objective.labelled else []
        if objective.labelled and (self.batch.ids is not None or self.batch.judge is not None):
            masks = [mask | each for mask, each in zip(masks, same, strict=True)]  # positives are never dropped
        labels = self.batch.labels
        if objective.rows is None and objective.metric(x) is None:
            with_vectors(positive, PairDistances(x.detach(), y.detach()))
            for read, matrix in zip(reads, matrices, strict=True):
                with_vectors(matrix, self.distances(read, block, indices))
        return Anchors(
            rows=x,
            others=y,
            other_views=tuple(views[other] for other in self.others),
            indices=indices,
            positive=positive,
            negatives=tuple(matrices),
            masks=tuple(masks),
            same_label=tuple(same) if objective.labelled else None,
            labels=None if labels is None else labels.keys[indices],
            scores=None if self.batch.scores is None else self.batch.scores[block],
            guide=tuple(self._guide(read, block).to(x) for read in reads) if objective.reads_guide else None,
            context=context,
        )

    def _guide(self, read: Read, block: slice) -> Tensor:
        """The guide's cosines of a block of a matrix's rows with its columns."""
        guide, (row, parts) = self.batch.guide, self.sources(read)
        if guide is None:
            raise ValueError("the objective compares rows with the cosines of a guide, and there is no guide")
        return torch.cat([guide.cosines(row, block, part) for part in parts], dim=1)

    def _masks(self, reads: Sequence[Read], indices: Tensor) -> list[Tensor]:
        """One mask for each matrix; matrices that exclude the same entries share it."""
        shared: dict[object, Tensor] = {}
        masks = []
        for read in reads:
            key = read if self.batch.judge is not None else self.num_columns(read)
            if key not in shared:
                shared[key] = self.mask(read, indices)
            masks.append(shared[key])
        return masks

    def distances(self, read: Read, block: slice, indices: Tensor) -> MatrixDistances:
        """Squared distances of a block of a matrix's rows to its columns, to all digits."""
        row, parts = self.sources(read)
        keys = tuple(self.batch.rows[part].detach() for part in parts)
        own = partial(self.own, indices, read)
        return MatrixDistances(self.batch.rows[row][block].detach(), keys, own)


def fill_entries(matrix: Tensor, entries: Entries, value: float) -> None:
    """Writes a value into some entries of a block."""
    if isinstance(entries, Tensor):
        matrix.masked_fill_(entries, value)
    else:
        matrix[entries] = value


def apply_metric(objective: PairContract, rows: Tensor) -> Tensor:
    """Rows ready for an inner product: times the objective's metric, if it has one."""
    metric = objective.metric(rows)
    return rows if metric is None else rows * metric


def positives(objective: PairContract, x: Tensor, y: Tensor) -> Tensor:
    """x_i·y_i: (B, D), (B, D) -> (B,)."""
    return (apply_metric(objective, x) * y).sum(dim=1)
