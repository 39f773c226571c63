"""From the tensors of one call to a batch: what a call is given, what is refused, and how a batch is assembled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, OwnNegatives
from hypersphere.engine.distributed import Shard, agree_on_shapes, gather_rows, world_size
from hypersphere.engine.groups import Groups
from hypersphere.engine.guide import DEFAULT_RULE, Guide, GuideRule
from hypersphere.engine.objective import PairContract, RowContract
from hypersphere.geometry import normalize, require_finite, widened
from hypersphere.torch_internals import plain_operations


@dataclass(frozen=True)
class Inputs:
    """The tensors of a call. Those without a comment on gradients carry none."""

    z1: Tensor  # (N, D) raw rows of the first view, with gradient
    z2: Tensor  # (N, D) of the second view, with gradient
    labels: Tensor | None = None  # (N,) -1: unlabelled
    negatives: Tensor | None = None  # (M, D) further columns, or (N, M, D) each anchor's own, with gradient
    views: tuple[Tensor, ...] = ()  # (N, D) each: the third view and those after it, with gradient
    ids: Tensor | None = None  # (N,) rows of equal ids are no negatives of each other; -1: equal to nothing
    ids_negatives: Tensor | None = None  # (M,) or (N, M)
    guide: Tensor | tuple[Tensor, ...] | None = None  # (N, G) of all views, or one for each
    guide_negatives: Tensor | None = None  # (M, G)
    scores: Tensor | None = None  # (N,) how similar the two rows of an instance are
    in_batch: bool = True  # the other instances of the batch are negatives too
    rule: GuideRule = DEFAULT_RULE

    @property
    def all_views(self) -> tuple[Tensor, ...]:
        return self.z1, self.z2, *self.views

    @property
    def constants(self) -> list[Tensor | None]:
        """The tensors that carry no gradient."""
        guides = [self.guide] if self.guide is None or isinstance(self.guide, Tensor) else list(self.guide)
        return [self.labels, self.ids, self.ids_negatives, *guides, self.guide_negatives, self.scores]

    def exchanged(self) -> Inputs:
        """The same with the first two views in each other's place."""
        guide = self.guide
        if isinstance(guide, tuple):
            guide = (guide[1], guide[0], *guide[2:])
        return replace(self, z1=self.z2, z2=self.z1, guide=guide)

    @property
    def given(self) -> list[str]:
        """The names of the optional arguments that are there."""
        values = ((name, getattr(self, name)) for name in OPTIONAL)
        return [name for name, value in values if value is not None and not (isinstance(value, tuple) and not value)]


# The tensors that a call may leave out.
OPTIONAL = tuple(each.name for each in fields(Inputs) if each.default is None or each.default == ())


# ---------------------------------------------------------------------------------------------------------- assembling


def assemble(objective: RowContract, inputs: Inputs, requests: list[int] | None = None) -> tuple[Batch, list[Tensor]]:
    """The batch of all processes, from checked inputs, and the inverse norms of this process's views and negatives.

    requests: what this process asks of the evaluation, in a few numbers that every other is told.
    """
    rows, inverses, own_negatives = _rows(objective, inputs)
    labels = None if inputs.labels is None else inputs.labels.long()
    scores = None if inputs.scores is None else inputs.scores.detach()
    if scores is not None:
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    ids, extra_ids, guide = _known_negatives(inputs)
    if world_size(objective.gather) == 1:
        shard, extra = Shard(rows[0].shape[:1], 0), Shard(rows[-1].shape[:1], 0)
        everyone = [requests or []]
    else:
        num_own = 0 if own_negatives is None else own_negatives.num_columns
        shard, extra, everyone = agree_on_shapes(
            rows, labels, ids, guide, scores, num_own, inputs.in_batch, requests or []
        )
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
        extra_shard=extra,
        own_negatives=own_negatives,
        in_batch=inputs.in_batch,
        requests=everyone,
    )
    return batch, inverses


def _rows(objective: RowContract, inputs: Inputs) -> tuple[list[Tensor], list[Tensor], OwnNegatives | None]:
    """This process's rows of the views and of the negatives that all anchors share, none if each has its own; the
    inverse norms of everything given; and each anchor's own negatives."""
    negatives = inputs.negatives
    given = [*inputs.all_views, *([] if negatives is None else [negatives.flatten(0, -2)])]
    names = [*(f"z{number}" for number in range(1, len(inputs.all_views) + 1)), "negatives"]
    if torch.float64 in [z.dtype for z in given]:
        given = [widened(z).double() for z in given]
    pairs = [_unit_rows(objective, z, name) for z, name in zip(given, names, strict=False)]
    rows, inverses = [rows for rows, _ in pairs], [inverse for _, inverse in pairs]
    own_negatives = None
    if negatives is not None and negatives.ndim == 3:
        of_own = rows.pop()
        own_negatives = OwnNegatives(of_own.view(*negatives.shape[:2], of_own.shape[1]), inputs.ids_negatives)
    if len(rows) == len(inputs.all_views):
        rows.append(rows[0].new_empty(0, rows[0].shape[1]))
    return rows, inverses, own_negatives


def _unit_rows(objective: RowContract, z: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The rows the objective works on, and their inverse norms if it works on unit rows."""
    if objective.rows is None:
        return normalize(z, name)
    require_finite(z, name)
    return objective.rows(z), z.new_empty(0)


def _known_negatives(inputs: Inputs) -> tuple[Tensor | None, Tensor | None, list[Tensor]]:
    """This process's ids of instances and of extra negatives, and the guide's unit rows of each view and of them."""
    num_extra = 0 if inputs.negatives is None or inputs.negatives.ndim == 3 else len(inputs.negatives)
    ids = extra_ids = None
    if inputs.ids is not None:
        ids, given = inputs.ids.long(), inputs.ids_negatives
        extra_ids = ids.new_full((num_extra,), -1) if given is None or given.ndim == 2 else given.long()
    if inputs.guide is None:
        return ids, extra_ids, []
    guides = (inputs.guide,) if isinstance(inputs.guide, Tensor) else inputs.guide
    extra = guides[0][:0] if inputs.guide_negatives is None else inputs.guide_negatives
    *unit_rows, extra = (normalize(each.detach(), "guide")[0] for each in (*guides, extra))
    wide = torch.float64 if torch.float64 in [each.dtype for each in (*unit_rows, extra)] else torch.float32
    *unit_rows, extra = (each.to(wide) for each in (*unit_rows, extra))
    return ids, extra_ids, [*(unit_rows if len(unit_rows) > 1 else unit_rows * len(inputs.all_views)), extra]


# -------------------------------------------------------------------------------------------------------------- checks


def check_inputs(inputs: Inputs) -> None:
    """Raises unless the tensors of a call fit together and are on one device."""
    z1, negatives = inputs.z1, inputs.negatives
    named = {f"z{number}": z for number, z in enumerate(inputs.all_views, start=1)}
    for name, z in {**named, **({} if negatives is None else {"negatives": negatives})}.items():
        _check_matrix(name, z, or_each=name == "negatives")
        if z.is_meta:
            raise ValueError(f"{name} is on the meta device, where tensors hold no numbers")
        _check_device(name, z, z1)
    for name, z in list(named.items())[1:]:
        if z.shape != z1.shape:
            which = "the two views" if not inputs.views else "the views"
            raise ValueError(f"{which} differ in shape: z1 {tuple(z1.shape)}, {name} {tuple(z.shape)}")
    if negatives is not None and negatives.shape[-1] != z1.shape[1]:
        raise ValueError(f"negatives have {negatives.shape[-1]} dimensions but the views have {z1.shape[1]}")
    if negatives is not None and negatives.ndim == 3 and len(negatives) != len(z1):
        raise ValueError(f"negatives of shape {tuple(negatives.shape)} are each anchor's own, for {len(z1)} anchors")
    if not inputs.in_batch and negatives is None:
        raise ValueError("in_batch=False needs negatives: without them no anchor has any")
    if inputs.labels is not None:
        _check_numbers("labels", inputs.labels, z1, z1.shape[:1], "(-1: unlabelled)")
    _check_ids(inputs)
    _check_guide(inputs)
    if inputs.scores is not None:
        _check_scores(inputs.scores, z1)


def _check_matrix(name: str, z: object, or_each: bool = False) -> None:
    if not isinstance(z, Tensor):
        missing = ": row i of z2 is the positive of row i of z1" if z is None and name == "z2" else ""
        raise ValueError(f"{name} must be a tensor, not {type(z).__name__}{missing}")
    if z.layout != torch.strided or z.is_nested:
        raise ValueError(f"{name} must be a dense tensor, not {'nested' if z.is_nested else z.layout}")
    if not (z.ndim == 2 or (z.ndim == 3 and or_each)) or z.shape[-1] == 0:
        raise ValueError(f"{name} must be a matrix, one embedding per row, not of shape {tuple(z.shape)}")
    if not z.is_floating_point():
        raise ValueError(f"{name} must hold floating point numbers, not {z.dtype}")
    if z.dtype.itemsize < 2:
        raise ValueError(f"{name} is of type {z.dtype}, which is for storage alone; convert it: {name}.float()")


def _check_device(name: str, given: Tensor, z1: Tensor) -> None:
    if given.device != z1.device:
        verb = "are" if name.endswith("s") else "is"
        raise ValueError(f"{name} {verb if name != 'negatives' else 'is'} on {given.device} but z1 is on {z1.device}")


def _check_numbers(name: str, given: object, z1: Tensor, size: Sequence[int], unknown: str) -> None:
    if not isinstance(given, Tensor) or given.shape != tuple(size):
        shape = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        number = " × ".join(map(str, size))
        raise ValueError(f"{name} must be a tensor of {number} whole numbers, one per row, not {shape}")
    if given.is_floating_point() or given.is_complex():
        raise ValueError(f"{name} must be whole numbers {unknown}, not {given.dtype}")
    if given.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, not {given.layout}")
    _check_device(name, given, z1)


def _check_scores(scores: object, z1: Tensor) -> None:
    if not isinstance(scores, Tensor) or scores.shape != z1.shape[:1]:
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"scores must be a tensor of {len(z1)} numbers, one per row, not {shape}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floating point numbers, not {scores.dtype}")
    if scores.layout != torch.strided:
        raise ValueError(f"scores must be a dense tensor, not {scores.layout}")
    _check_device("scores", scores, z1)
    if not bool(scores.isfinite().all()):
        rows = (~scores.isfinite()).nonzero().flatten().tolist()
        raise ValueError(f"scores must be finite; those of rows {', '.join(map(str, rows[:8]))} are not")


def _check_ids(inputs: Inputs) -> None:
    if inputs.ids is not None:
        _check_numbers("ids", inputs.ids, inputs.z1, inputs.z1.shape[:1], "(-1: equal to nothing)")
    if inputs.ids_negatives is not None:
        if inputs.ids is None:
            raise ValueError("ids_negatives need ids, which they are compared with")
        if inputs.negatives is None:
            raise ValueError("ids_negatives need negatives, which they belong to")
        _check_numbers(
            "ids_negatives", inputs.ids_negatives, inputs.z1, inputs.negatives.shape[:-1], "(-1: equal to nothing)"
        )


def _check_guide(inputs: Inputs) -> None:
    """One matrix for all views, or one for each; and one for the extra negatives, if there are any."""
    guide, negatives = inputs.guide, inputs.guide_negatives
    if guide is None:
        if negatives is not None:
            raise ValueError("guide_negatives need a guide, which they are compared with")
        return
    if inputs.negatives is not None and inputs.negatives.ndim == 3:
        raise ValueError("a guide judges the negatives that all anchors share; give it none of each anchor's own")
    guides = [guide] if isinstance(guide, Tensor) else list(guide) if isinstance(guide, (tuple, list)) else [guide]
    if not isinstance(guide, Tensor) and len(guides) != len(inputs.all_views):
        raise ValueError(f"guide must be one tensor, or one for each of the {len(inputs.all_views)} views")
    if (negatives is None) != (inputs.negatives is None) and "extra" in inputs.rule.reads:
        raise ValueError("negatives and guide_negatives come together: the guide must have seen the same rows")
    sized = [("guide", each, len(inputs.z1)) for each in guides]
    if negatives is not None and inputs.negatives is not None:
        sized.append(("guide_negatives", negatives, len(inputs.negatives)))
    for name, each, size in sized:
        _check_matrix(name, each)
        _check_device(name, each, inputs.z1)
        if len(each) != size:
            raise ValueError(f"{name} must have {size} rows, one for each row it was made from, not {len(each)}")
        if each.shape[1] != guides[0].shape[1]:
            raise ValueError(f"the guide's rows differ in dimension: {guides[0].shape[1]} and {each.shape[1]}")


def check_size(objective: RowContract, size: int) -> None:
    """Raises if the batch has too few instances for the objective."""
    if size < objective.fewest:
        fewest = {1: "one instance", 2: "two instances"}.get(objective.fewest, f"{objective.fewest} instances")
        short = ": a data loader's drop_last leaves out a short last batch" if size else ""
        raise ValueError(f"{_name(objective)} needs a batch of at least {fewest}; this one has {size}{short}")


def check_one_row(objective: PairContract, size: int, has_extra: bool, losses: Tensor) -> None:
    """For a batch of one row without negatives: warns, or raises if the formula has no finite value there."""
    if size > 1 or has_extra or not objective.reads or plain_operations():
        return
    if not bool(losses.isfinite().all()):
        raise ValueError(
            f"{_name(objective)} has no finite value for an anchor without negatives: give a batch of one row "
            "`negatives=`, or drop it"
        )
    _warn_of_one_row()


@cache
def _warn_of_one_row() -> None:
    """Warns once in the life of a process."""
    warnings.warn(
        "a batch of one row has no negatives: a softmax or hinge loss is 0 there, an energy is left out "
        "(this warning is given once)",
        stacklevel=2,
    )


def _name(objective: RowContract) -> str:
    return str(getattr(objective, "name", type(objective).__name__))
