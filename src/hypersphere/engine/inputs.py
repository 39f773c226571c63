"""What one call of an objective is given, and the checks that refuse what cannot be views of a batch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

import torch
from torch import Tensor

from hypersphere.engine.objective import PairContract, RowContract
from hypersphere.torch_internals import plain_operations


@dataclass(frozen=True)
class GuideRule:
    """Which columns a guide drops: those it finds more similar to the anchor than a threshold t_i.

    With own_i the guide's cosine of the anchor and its positive: t_i = own_i - margin ("absolute"), or
    own_i - margin · |own_i| ("relative"). reads: the matrices the guide judges, "extra" for the extra negatives.
    """

    margin: float = 0.0
    strategy: str = "absolute"
    reads: tuple[str, ...] = ("cross", "same", "other", "extra")


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
    rule: GuideRule = GuideRule()

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
        guide = self.guide if self.guide is None or isinstance(self.guide, Tensor) else self.guide[::-1]
        return replace(self, z1=self.z2, z2=self.z1, guide=guide)

    @property
    def given(self) -> list[str]:
        """The names of the optional arguments that are there."""
        values = ((name, getattr(self, name)) for name in OPTIONAL)
        return [name for name, value in values if value is not None and value != ()]


# The tensors that a call may leave out.
OPTIONAL = tuple(each.name for each in fields(Inputs) if each.default is None or each.default == ())


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
        raise ValueError(f"{name} must be a tensor, not {type(z).__name__}")
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
        fewest = ("one instance", "two instances")[objective.fewest - 1]
        raise ValueError(f"{_name(objective)} needs a batch of at least {fewest}; this one has {size}")


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
