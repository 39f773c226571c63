"""The batch of all processes as unit rows, and which of its rows each similarity matrix reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from hypersphere.engine.distributed import Shard
from hypersphere.engine.groups import Groups
from hypersphere.engine.guide import Guide
from hypersphere.engine.mask import Diagonals, Entries, count, fill_entries, mask_except
from hypersphere.engine.objective import Anchors, PairContract, Read
from hypersphere.geometry.distances import MatrixDistances, PairDistances, with_vectors


@dataclass(frozen=True)
class OwnNegatives:
    """Extra negatives that belong to one anchor each, of the n anchors of this process."""

    rows: Tensor  # (n, M, D) unit rows
    ids: Tensor | None  # (n, M)

    @property
    def num_columns(self) -> int:
        return self.rows.shape[1]

    def mask(self, ids: Tensor | None, block: slice) -> Tensor:
        """True where they are negatives of a block of anchors: those whose id is not the anchor's (B,)."""
        if self.ids is None or ids is None:
            return torch.ones(self.rows[block].shape[:2], dtype=torch.bool, device=self.rows.device)
        return (self.ids[block] != ids.unsqueeze(1)) | (self.ids[block] == -1)


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
    extra_shard: Shard  # of the negatives
    own_negatives: OwnNegatives | None  # those of each anchor of this process
    in_batch: bool  # the other instances are negatives too
    requests: list[list[int]]  # by rank: what each process asks of this evaluation, as numbers that ``stream`` chose

    @property
    def size(self) -> int:
        return self.shard.total

    @property
    def num_views(self) -> int:
        return len(self.rows) - 1

    @property
    def num_extra(self) -> int:
        return self.rows[-1].shape[0]

    @property
    def has_extra(self) -> bool:
        """Whether there are negatives beside the batch's own instances."""
        return self.num_extra > 0 or (self.own_negatives is not None and self.own_negatives.num_columns > 0)

    @property
    def judge(self) -> Guide | None:
        """The guide, if it drops columns."""
        return self.guide if self.guide is not None and self.guide.rule.reads else None

    def shard_of(self, index: int) -> Shard:
        """The shard of a view or of the negatives."""
        return self.extra_shard if index == self.num_views else self.shard


def directions(objective: PairContract, batch: Batch) -> list[Direction]:
    """The views that are anchors, each with the others as its keys."""
    views = range(batch.num_views) if objective.anchors == "both" else (0,)
    reads = objective.reads
    with_extra = tuple(read for read in reads if read not in objective.without_extra)
    met = [anchor == 0 or objective.extra_negatives == "both" for anchor in views]
    if not batch.in_batch:
        _check_others(batch, met)
    met_by = zip(views, met, strict=True)
    return [Direction(batch, anchor, reads, with_extra if meets else ()) for anchor, meets in met_by]


def _check_others(batch: Batch, met: list[bool]) -> None:
    """Raises if anchors have no negatives because the batch has none for them."""
    if not batch.has_extra:
        raise ValueError("in_batch=False needs negatives: without them no anchor has any")
    if not all(met):
        raise ValueError(
            "in_batch=False leaves the rows of the second view without negatives, since the extra ones are those of "
            "the first; set extra_negatives='both'"
        )


@dataclass(frozen=True)
class Direction:
    """One view as the anchors, the others as their keys."""

    batch: Batch
    anchor: int  # the index of the view
    reads: tuple[Read, ...]  # the matrices
    with_extra: tuple[Read, ...]  # those whose last columns are the extra negatives

    @cached_property
    def other_views(self) -> tuple[int, ...]:
        """The other views, in turn from the anchors' on."""
        views = self.batch.num_views
        return tuple((self.anchor + step) % views for step in range(1, views))

    @property
    def positive_view(self) -> int:
        """The view of the positives: the next one."""
        return self.other_views[0]

    def num_extra(self, read: Read) -> int:
        """How many columns of a matrix are extra negatives."""
        return self.batch.num_extra if read in self.with_extra else 0

    def views(self, block: slice) -> list[Tensor]:
        """A block of rows in all views, without gradient."""
        return [rows[block].detach() for rows in self.batch.rows[:-1]]

    def moving(self, objective: PairContract) -> list[bool]:
        """Which tensors of a block carry a gradient: each view, the positives, each matrix. In a one-sided objective
        only the anchors' rows, the positives, and the matrices whose rows are the anchors."""
        views = [*range(self.batch.num_views), self.anchor, *(self.sources(read)[0] for read in self.reads)]
        return [not objective.one_sided or view == self.anchor for view in views]

    # ------------------------------------------------------------------------------------------- rows and columns

    def sources(self, read: Read) -> tuple[int, tuple[int, ...]]:
        """What a matrix is made of, as indices in ``batch.rows``: the view of its rows, and the sources of its columns,
        views or the extra negatives."""
        return self._layout[read]

    @cached_property
    def _layout(self) -> dict[Read, tuple[int, tuple[int, ...]]]:
        x, y = self.anchor, self.positive_view
        layout: dict[Read, tuple[int, tuple[int, ...]]] = {
            "cross": (x, self.other_views),
            "same": (x, (x,)),
            "other": (y, (y,)),
            "back": (y, (x,)),
            "both": (x, (*self.other_views, x)),
        }
        if not self.batch.in_batch:
            layout = {read: (view, ()) for read, (view, _) in layout.items()}
        extra = (self.batch.num_views,)
        return {
            read: (view, sources + extra if self.num_extra(read) else sources)
            for read, (view, sources) in layout.items()
        }

    def num_columns(self, read: Read) -> int:
        return sum(self.batch.rows[source].shape[0] for source in self.sources(read)[1])

    def columns(self, read: Read) -> Iterator[tuple[int, slice]]:
        """The sources of a matrix's columns, each with the columns that it fills."""
        first = 0
        for source in self.sources(read)[1]:
            yield source, slice(first, first := first + len(self.batch.rows[source]))

    # ---------------------------------------------------------------------------------- which columns are negatives

    def num_own_instances(self, read: Read) -> int:
        """How many columns belong to the anchor's own instance: one for each view that is read."""
        return len([source for source in self.sources(read)[1] if source < self.batch.num_views])

    def own_instances(self, read: Read, block: slice) -> Diagonals:
        """The entries of a block of anchors with their own instances: one diagonal for each view that is read."""
        return Diagonals(tuple(block.start + view * self.batch.size for view in range(self.num_own_instances(read))))

    def excluded(self, read: Read, block: slice) -> Entries:
        """The entries of a block that are no negatives of their anchors: those of the own instance, of equal ids, and
        those that the guide drops."""
        batch, own = self.batch, self.own_instances(read, block)
        if batch.ids is None and batch.judge is None:
            return own
        if batch.judge is None and batch.ids is not None and batch.ids.are_few(batch.ids.keys[block]):
            return self._own_and_equal_ids(read, block, own, batch.ids.keys[block])
        size, device = block.stop - block.start, batch.rows[0].device
        mask = torch.zeros(size, self.num_columns(read), dtype=torch.bool, device=device)
        if batch.judge is not None and size:
            self._mark_dropped(read, block, batch.judge, mask)
        if batch.ids is not None:
            for source, columns in self.columns(read):
                mask[:, columns] |= self._ids_of(source).equal(batch.ids.keys[block])
        return fill_entries(mask, own, True)

    def _ids_of(self, source: int) -> Groups:
        ids = self.batch.extra_ids if source == self.batch.num_views else self.batch.ids
        assert ids is not None
        return ids

    def _own_and_equal_ids(self, read: Read, block: slice, own: Diagonals, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and columns of the own instances and of the ids ``keys`` (B,), each entry once."""
        every = torch.arange(len(keys), device=keys.device)
        entries = [(every[:0], every[:0])]  # a matrix may have no columns
        entries += [(every, every + start) for start in own.starts]
        for source, columns in self.columns(read):
            ids = self._ids_of(source)
            line, member = ids.members(keys) if source == self.batch.num_views else ids.others(block)
            entries.append((line, member + columns.start))
        return torch.cat([line for line, _ in entries]), torch.cat([column for _, column in entries])

    def _mark_dropped(self, read: Read, block: slice, guide: Guide, mask: Tensor) -> None:
        """Writes True where the guide drops a column of a block."""
        view, _ = self.sources(read)
        for source, columns in self.columns(read):
            if self._pairs_of(view, source) in guide.rule.reads:
                guide.dropped(view, block, source, self._threshold, mask[:, columns])

    def _pairs_of(self, view: int, source: int) -> str:
        """The word by which a guide's rule names the pairs of the rows of a view with those of a source."""
        if source == self.batch.num_views:
            return "extra"
        if source != view:
            return "cross"
        return "same" if view == self.anchor else "other"

    @cached_property
    def _threshold(self) -> Tensor:
        assert self.batch.guide is not None
        return self.batch.guide.threshold(self.anchor, self.positive_view)

    def num_negatives(self, read: Read, block: slice, excluded: Entries) -> Tensor:
        """How many columns of a matrix are negatives of each anchor of a block, from what ``excluded`` returned."""
        if isinstance(excluded, Tensor):
            return self.num_columns(read) - count(excluded)
        return self.num_by_ids(read, block)

    def num_by_ids(self, read: Read, block: slice) -> Tensor:
        """The same where no guide drops any, without a look at the columns."""
        batch, num_own = self.batch, self.num_own_instances(read)
        others = self.num_columns(read) - num_own
        # int32 as from ``count``: processes that count in different ways exchange these numbers.
        num = torch.full((block.stop - block.start,), others, dtype=torch.int32, device=batch.rows[0].device)
        if batch.ids is not None:
            keys = batch.ids.keys[block]
            num -= num_own * (batch.ids.sizes(keys) - 1).clamp_min(0)
            num -= self._ids_of(batch.num_views).sizes(keys) if self.num_extra(read) else 0
        return num

    def mask(self, read: Read, block: slice) -> Tensor:
        """True where a column is a negative of the anchor."""
        excluded = self.excluded(read, block)
        if isinstance(excluded, Tensor):
            return ~excluded
        shape = block.stop - block.start, self.num_columns(read)
        return mask_except(excluded, shape, holds=False, device=self.batch.rows[0].device)

    def same_label(self, read: Read, block: slice) -> Tensor:
        """True at other instances that share the anchor's label."""
        labels = self.batch.labels
        assert labels is not None
        keys, views = labels.keys[block], range(self.num_own_instances(read))
        shape = len(keys), self.num_columns(read)
        if not views:
            return torch.zeros(shape, dtype=torch.bool, device=keys.device)
        if not labels.are_few(keys):
            same = torch.cat([labels.equal(keys)] * len(views), dim=1)
            same = pad(same, (0, self.num_extra(read)), value=False)
            return fill_entries(same, self.own_instances(read, block), False)
        line, member = labels.others(block)
        column = torch.cat([member + view * self.batch.size for view in views])
        return mask_except((line.repeat(len(views)), column), shape, holds=True, device=keys.device)

    # ------------------------------------------------------------------------------------- what an objective is given

    def anchors(
        self,
        objective: PairContract,
        block: slice,
        views: Sequence[Tensor],
        positive: Tensor,
        matrices: list[Tensor],
        context: object,
        own_negatives: Tensor | None = None,
        asked: list[Tensor] | None = None,
    ) -> Anchors:
        """The anchors of a block of rows, which ``views`` holds in every view, and ``own_negatives`` (B, M, D) those of
        each; no matrices and no masks where the objective sees only a summary of them. ``asked``: see ``distances``."""
        x, y = views[self.anchor], views[self.positive_view]
        reads = self.reads if matrices else ()
        masks = self._masks(reads, block)
        same = [self.same_label(read, block) for read in reads] if objective.labelled else []
        if objective.labelled and (self.batch.ids is not None or self.batch.judge is not None):
            masks = [mask | each for mask, each in zip(masks, same, strict=True)]  # positives are never dropped
        labels = self.batch.labels
        if own_negatives is not None:
            matrices = [
                self._with_own(objective, read, views, own_negatives, matrix)
                for read, matrix in zip(reads, matrices, strict=True)
            ]
            masks, same = self._masks_with_own(reads, block, masks, same)
        if objective.rows is None and objective.metric(x) is None:
            with_vectors(positive, PairDistances(x, y))
            for read, matrix in zip(reads, matrices, strict=True):
                with_vectors(matrix, self.distances(read, block, asked, own_negatives))
        return Anchors(
            rows=x,
            others=y,
            other_views=tuple(views[other] for other in self.other_views),
            block=block,
            positive=positive,
            negatives=tuple(matrices),
            masks=tuple(masks),
            same_label=tuple(same) if objective.labelled else None,
            labels=None if labels is None else labels.keys[block],
            scores=None if self.batch.scores is None else self.batch.scores[block],
            guide=tuple(self._guide(read, block).to(x) for read in reads) if objective.reads_guide else None,
            context=context,
        )

    def _with_own(
        self, objective: PairContract, read: Read, views: Sequence[Tensor], own_negatives: Tensor, matrix: Tensor
    ) -> Tensor:
        """A matrix with the similarities of the anchors' own negatives as its last columns."""
        if read not in self.with_extra:
            return matrix
        rows = apply_metric(objective, views[self.sources(read)[0]])
        return torch.cat([matrix, (own_negatives @ rows.unsqueeze(2)).squeeze(2)], dim=1)

    def _masks_with_own(
        self, reads: Sequence[Read], block: slice, masks: list[Tensor], same: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The masks, and those of equal labels, with the anchors' own negatives as their last columns."""
        assert self.batch.own_negatives is not None
        ids, here = self.batch.ids, self.batch.shard.within(block)
        mask = self.batch.own_negatives.mask(None if ids is None else ids.keys[block], here)
        has = [read in self.with_extra for read in reads]
        wider = [torch.cat([each, mask], dim=1) if own else each for each, own in zip(masks, has, strict=True)]
        return wider, [pad(each, (0, mask.shape[1] * own), value=False) for each, own in zip(same, has, strict=False)]

    def _guide(self, read: Read, block: slice) -> Tensor:
        """The guide's cosines of a block of a matrix's rows with its columns."""
        guide, (view, sources) = self.batch.guide, self.sources(read)
        if guide is None:
            raise ValueError("the objective compares rows with the cosines of a guide, and there is no guide")
        distinct = {id(guide.rows[source]): source for source in sources}  # views may share the guide's rows
        cosines = {key: guide.cosines(view, block, source) for key, source in distinct.items()}
        return torch.cat([cosines[id(guide.rows[source])] for source in sources], dim=1)

    def _masks(self, reads: Sequence[Read], block: slice) -> list[Tensor]:
        """One mask for each matrix; matrices that exclude the same entries share it."""
        shared: dict[object, Tensor] = {}
        masks = []
        for read in reads:
            by_position = self.num_own_instances(read), self.num_extra(read)
            key = by_position if self.batch.judge is None else read
            if key not in shared:
                shared[key] = self.mask(read, block)
            masks.append(shared[key])
        return masks

    def distances(
        self, read: Read, block: slice, asked: list[Tensor] | None = None, own_negatives: Tensor | None = None
    ) -> MatrixDistances:
        """Squared distances of a block of a matrix's rows to its columns, to all digits; with a list, the block adds
        to it whether it needs them, and does without."""
        view, sources = self.sources(read)
        keys = tuple(self.batch.rows[source] for source in sources)
        each = own_negatives.detach() if own_negatives is not None and read in self.with_extra else None
        starts = self.own_instances(read, block).starts
        return MatrixDistances(self.batch.rows[view], block, keys, starts, each, asked)


def apply_metric(objective: PairContract, rows: Tensor) -> Tensor:
    """Rows ready for an inner product: times the objective's metric, if it has one."""
    metric = objective.metric(rows)
    return rows if metric is None else rows * metric


def positives(objective: PairContract, x: Tensor, y: Tensor) -> Tensor:
    """x_i·y_i: (B, D), (B, D) -> (B,)."""
    return (apply_metric(objective, x) * y).sum(dim=1)
