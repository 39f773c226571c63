"""The whole batch as unit rows, and where in it each similarity matrix finds its rows and columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial

import torch
from torch import Tensor

from hypersphere.engine.contract import Anchors, Evaluable, Read, Rowwise
from hypersphere.engine.mask import mask_except
from hypersphere.engine.memory import Lend
from hypersphere.engine.near import Negatives, Positives
from hypersphere.engine.processes import Share, exchange, gather_rows, world_size
from hypersphere.geometry import normalize, require_finite, widened
from hypersphere.geometry.modes import plain_operations
from hypersphere.geometry.near import with_vectors

FIXED = 3  # where in ``Batch.rows`` stands what is fixed of z1; that of z2 follows


@dataclass(frozen=True)
class Batch:
    """Two views (N, D) and extra negatives (M, D), normalised, of all processes together."""

    rows: tuple[Tensor, ...]  # z1, z2, negatives; and what is fixed of z1 and of z2, if the objective makes anything
    labels: Tensor | None  # (N,)
    share: Share  # of the instances
    extra: Share  # of the negatives
    asked: list[list[int]]  # by process: what it asked for when the batch was put together

    @property
    def size(self) -> int:
        return self.share.total

    @cached_property
    def classes(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The instances sorted by label, and for each where its label begins there, how many have it (an unlabelled
        one: 0) and which of them it is."""
        assert self.labels is not None
        labels = self.labels.contiguous()
        known, order = labels.sort()
        first, last = (torch.searchsorted(known, labels, right=right) for right in (False, True))
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return order, first, torch.where(labels >= 0, last - first, 0), place - first


@dataclass(frozen=True)
class Turn:
    """One view taking its turn as the anchors."""

    batch: Batch
    anchor: int  # 0 or 1
    extra: bool = True  # whether its anchors meet the extra negatives

    @property
    def num_extra(self) -> int:
        return len(self.batch.rows[2]) if self.extra else 0

    @property
    def other(self) -> int:
        return 1 - self.anchor

    def sources(self, read: Read) -> tuple[int, tuple[int, ...]]:
        """Index of the rows and indices of the columns of a matrix in ``batch.rows``."""
        x, y, extra = self.anchor, self.other, ((2,) if self.num_extra else ())
        layout: dict[Read, tuple[int, tuple[int, ...]]] = {
            "cross": (x, (y, *extra)),
            "same": (x, (x, *extra)),
            "other": (y, (y, *extra)),
            "both": (x, (y, x, *extra)),
            "fixed_keys": (x, (FIXED + y,)),
            "fixed_rows": (FIXED + x, (y,)),
        }
        return layout[read]

    def columns(self, read: Read) -> int:
        return sum(len(self.batch.rows[index]) for index in self.sources(read)[1])

    def mask(self, rows: Tensor, columns: int) -> Tensor:
        """True where a column is another instance than the anchor's; ``rows`` (B,) are places in the batch."""
        return mask_except(*self.own(rows, columns), (len(rows), columns), holds=False)

    def own(self, rows: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """Where in a block of these rows their own instances stand: (B, 1) and (B, 1 or 2)."""
        line, own = torch.arange(len(rows), device=rows.device).unsqueeze(1), rows.unsqueeze(1)
        return line, own if self.own_columns(columns) == 1 else torch.cat([own, own + self.batch.size], dim=1)

    def parts(self, columns: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
        """Where the parts of a matrix's columns stand."""
        first = 0
        for part in columns:
            yield part, slice(first, first := first + len(self.batch.rows[part]))

    def own_columns(self, columns: int) -> int:
        """How many columns belong to the anchor's own instance."""
        return (columns - self.num_extra) // self.batch.size

    def relatives(self, rows: Tensor, columns: int) -> Tensor:
        """True at other instances that share the anchor's label."""
        order, first, size, rank = self.batch.classes
        sizes = size[rows]
        if 8 * int(sizes.sum()) > len(rows) * self.batch.size:  # too many to be listed
            return self._relatives_among_all(rows, columns)
        sizes = (sizes - 1).clamp_min_(0)  # without itself
        line = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), sizes)
        within = torch.arange(len(line), device=rows.device) - (sizes.cumsum(0) - sizes)[line]
        members = order[first[rows][line] + within + (within >= rank[rows][line])]
        views = range(self.own_columns(columns))
        places = torch.cat([members + view * self.batch.size for view in views])
        return mask_except(line.repeat(len(views)), places, (len(rows), columns), holds=True)

    def _relatives_among_all(self, rows: Tensor, columns: int) -> Tensor:
        labels = self.batch.labels
        assert labels is not None
        unknown = labels.new_full((self.num_extra,), -1)
        of_columns = torch.cat([labels] * self.own_columns(columns) + [unknown])
        own = torch.where(labels >= 0, labels, torch.iinfo(labels.dtype).min)[rows]  # unlabelled: equals nothing
        found = own.unsqueeze(1) == of_columns
        found[self.own(rows, columns)] = False
        return found

    def anchors(
        self,
        objective: Evaluable,
        rows: slice,
        x: Tensor,
        y: Tensor,
        matrices: list[Tensor],
        context: object,
        positive: Tensor,
    ) -> Anchors:
        """What the objective sees of the anchors ``rows`` (places in the batch)."""
        places = torch.arange(rows.start, rows.stop, device=x.device)
        columns = matrices[0].shape[1] if matrices else 0
        labels = self.batch.labels
        if objective.rows is None and objective.metric(x) is None:
            with_vectors(positive, Positives(x.detach(), y.detach()))
            for read, matrix in zip(objective.reads, matrices, strict=False):
                row, parts = self.sources(read)
                keys = tuple(self.batch.rows[part].detach() for part in parts)
                own = partial(self.own, places, matrix.shape[1])
                with_vectors(matrix, Negatives(self.batch.rows[row][rows].detach(), keys, own))
        return Anchors(
            rows=x,
            others=y,
            places=places,
            positive=positive,
            negatives=tuple(matrices),
            mask=self.mask(places, columns) if matrices else torch.empty(len(x), 0, dtype=torch.bool, device=x.device),
            relatives=self.relatives(places, columns) if objective.labelled and matrices else None,
            labels=None if labels is None else labels[places],
            context=context,
        )


def weighed(objective: Evaluable, rows: Tensor) -> Tensor:
    """Rows ready for an inner product with others: times the objective's metric, if it has one."""
    metric = objective.metric(rows)
    return rows if metric is None else rows * metric


def positives(objective: Evaluable, x: Tensor, y: Tensor) -> Tensor:
    """x_i·y_i: (B, D), (B, D) -> (B,)."""
    return (weighed(objective, x) * y).sum(dim=1)


def turns(objective: Evaluable, batch: Batch) -> list[Turn]:
    views = (0, 1) if objective.anchors == "both" else (0,)
    return [Turn(batch, anchor, anchor == 0 or objective.extra_negatives == "both") for anchor in views]


def check(z1: Tensor, z2: Tensor, labels: Tensor | None, negatives: Tensor | None) -> None:
    """One clear sentence for input that cannot be two views of a batch."""
    for name, z in (("z1", z1), ("z2", z2), ("negatives", negatives)):
        if not isinstance(z, Tensor) and (z is not None or name != "negatives"):
            raise ValueError(f"{name} must be a tensor, not {type(z).__name__}")
        if z is not None and (z.layout != torch.strided or z.is_nested):
            raise ValueError(f"{name} must be a dense tensor, not {'nested' if z.is_nested else z.layout}")
        if z is not None and (z.ndim != 2 or z.shape[1] == 0):
            raise ValueError(f"{name} must be a matrix, one embedding per row, not of shape {tuple(z.shape)}")
        if z is not None and not z.is_floating_point():
            raise ValueError(f"{name} must hold floating point numbers, not {z.dtype}")
        if z is not None and z.dtype.itemsize < 2:
            raise ValueError(f"{name} is of type {z.dtype}, which is for storage alone; convert it: {name}.float()")
        if z is not None and z.is_meta:
            raise ValueError(f"{name} is on the meta device, where tensors hold no numbers")
        if z is not None and z.device != z1.device:
            raise ValueError(f"{name} is on {z.device} but z1 is on {z1.device}")
    if z1.shape != z2.shape:
        raise ValueError(f"the two views differ in shape: z1 {tuple(z1.shape)}, z2 {tuple(z2.shape)}")
    if negatives is not None and negatives.shape[1] != z1.shape[1]:
        raise ValueError(f"negatives have {negatives.shape[1]} dimensions but the views have {z1.shape[1]}")
    if labels is not None and (not isinstance(labels, Tensor) or labels.shape != z1.shape[:1]):
        found = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(f"labels must be a tensor of {len(z1)} whole numbers, one per row, not {found}")
    if labels is not None and (labels.is_floating_point() or labels.is_complex()):
        raise ValueError(f"labels must be whole numbers (-1: unlabelled), not {labels.dtype}")
    if labels is not None and labels.layout != torch.strided:
        raise ValueError(f"labels must be a dense tensor, not {labels.layout}")
    if labels is not None and labels.device != z1.device:
        raise ValueError(f"labels are on {labels.device} but z1 is on {z1.device}")


def assemble(
    objective: Rowwise,
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None,
    negatives: Tensor | None,
    lend: Lend | None = None,
    asks: list[int] | None = None,
) -> tuple[Batch, list[Tensor]]:
    """The batch of all processes and the inverse norms of this process's z1, z2, negatives.

    The rows may be in memory that was lent if nothing is differentiated. ``asks``: a few numbers for all processes.
    """
    check(z1, z2, labels, negatives)
    given = [z1, z2] if negatives is None else [z1, z2, negatives]
    if torch.float64 in [z.dtype for z in given]:
        given = [widened(z).double() for z in given]
    pairs = [_mapped(objective, z, name, lend) for z, name in zip(given, ("z1", "z2", "negatives"), strict=False)]
    if negatives is None:
        pairs.append((pairs[0][0].detach()[:0], pairs[0][1][:0]))
    labels = None if labels is None else labels.long()
    if world_size(objective.gather) == 1:
        share, extra, asked = Share((len(z1),), 0), Share((len(pairs[2][0]),), 0), [asks or []]
        local = tuple(h for h, _ in pairs)
    else:
        share, extra, asked = _agree(z1, labels, negatives, pairs[0][0].dtype, asks or [])
        local = tuple(gather_rows(h.detach(), s) for (h, _), s in zip(pairs, (share, share, extra), strict=True))
        if labels is not None:
            labels = gather_rows(labels, share)
    if share.total < objective.fewest:
        fewest = ("one instance", "two instances")[objective.fewest - 1]
        raise ValueError(f"{_name(objective)} needs a batch of at least {fewest}; this one has {share.total}")
    inverse = [inverse for _, inverse in pairs]
    if objective.fixed is not None:
        lengths = [gather_rows(inverse[i], share) for i in (0, 1)]
        with torch.no_grad():
            local += tuple(objective.fixed(local[i].detach(), lengths[i]) for i in (0, 1))
    return Batch(local, labels, share, extra, asked), inverse


def check_limit(objective: Evaluable, batch: Batch, losses: Tensor) -> None:
    """Of a batch of one row without negatives: one warning, or one sentence if its formula is not finite there."""
    if batch.size > 1 or len(batch.rows[2]) or not objective.reads or plain_operations():
        return
    if not bool(losses.isfinite().all()):
        raise ValueError(
            f"{_name(objective)} has no finite value for an anchor without negatives: give a batch of one row "
            "`negatives=`, or drop it"
        )
    _warn_of_one_row()


@cache
def _warn_of_one_row() -> None:
    """Once in the life of a process."""
    warnings.warn(
        "a batch of one row has no negatives: a softmax or hinge loss is 0 there, an energy is left out "
        "(this warning is given once)",
        stacklevel=2,
    )


def _name(objective: Rowwise) -> str:
    return str(getattr(objective, "name", type(objective).__name__))


def _mapped(objective: Rowwise, z: Tensor, name: str, lend: Lend | None) -> tuple[Tensor, Tensor]:
    """The rows the objective works on, and their inverse norms if these are all it takes to go back."""
    if objective.rows is None:
        return normalize(z, name, None if lend is None else partial(lend, name))
    require_finite(z, name)
    return objective.rows(z), z.new_empty(0)


def _agree(
    z1: Tensor, labels: Tensor | None, negatives: Tensor | None, dtype: torch.dtype, asks: list[int]
) -> tuple[Share, Share, list[list[int]]]:
    """Sizes of all processes, and what they ask for; views that do not fit together are an error everywhere."""
    extra = 0 if negatives is None else len(negatives)
    everybody = exchange([len(z1), extra, z1.shape[1], int(labels is not None), dtype.itemsize, *asks])
    for place, what in ((2, "dimension of embeddings"), (3, "presence of labels"), (4, "bytes of a number")):
        found = [each[place] for each in everybody]
        if len(set(found)) > 1:
            raise ValueError(f"processes differ in the {what}: {found}")
    rank = torch.distributed.get_rank()
    share, extras = (Share(tuple(each[place] for each in everybody), rank) for place in (0, 1))
    return share, extras, [each[5:] for each in everybody]
