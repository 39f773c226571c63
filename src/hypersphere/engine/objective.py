"""What the engine needs from an objective, what it passes to it, and what it makes of the numbers that return.

An objective declares what it sees of its negatives (``sees``), in one of three ways:

| sees | the engine calls | with | loop |
|---|---|---|---|
| "logsumexp" | ``block_from_logsumexp`` | log Σ_j exp(scale · s_ij) for each matrix | streaming/logsumexp.py |
| "hardest" | ``block_from_hardest`` | max_j s_ij for each matrix | streaming/hardest.py |
| "all" | ``block`` | the matrices themselves | streaming/general.py |

``block`` is the definition of every objective; a summary is what a loop has computed already. Where none has, ``block``
serves: log-sum-exp with a scale that is None or above 40, or with rows of its own; each anchor's own negatives; the
derivatives of torch.func; the hardest negative of a small batch, which is a single dense block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

# Exponents up to this size, and sums of very many, stay far from the ends of float32.
MODERATE = 40.0
SMALLEST = torch.finfo(torch.float32).tiny  # an anchor without negatives has a sum of 0, which nothing is divided by

Read = Literal["cross", "same", "other", "back", "both"]
Statistics = dict[str, Tensor]


@dataclass(frozen=True)
class Anchors:
    """A block of B anchors, as an objective sees it. Rows are unit vectors, D their dimension, N the batch.

    The columns of a similarity matrix are the views that it reads (N for each), the extra negatives that all anchors
    share, and those of each anchor's own. ``negatives`` and ``masks`` are empty where the objective sees a summary.
    """

    rows: Tensor  # (B, D) the anchors x_i
    others: Tensor  # (B, D) their other views y_i
    other_views: tuple[Tensor, ...]  # (B, D) each: all other views of the same instances, y_i first
    block: slice  # their place in the batch
    positive: Tensor  # (B,) x_i·y_i
    negatives: tuple[Tensor, ...]  # (B, M) one matrix for each that the objective reads
    masks: tuple[Tensor, ...]  # (B, M) one for each matrix: True where a column is a negative of the anchor
    same_label: tuple[Tensor, ...] | None  # (B, M) True at other instances of the anchor's label; if objective.labelled
    labels: Tensor | None  # (B,) -1 means unlabelled
    scores: Tensor | None  # (B,) how similar the two rows of an instance are
    guide: tuple[Tensor, ...] | None  # (B, M) the guide's cosines of the same pairs; if objective.reads_guide
    context: Any  # what objective.prepare returned

    @cached_property
    def indices(self) -> Tensor:
        """Their indices in the batch (B,)."""
        return torch.arange(self.block.start, self.block.stop, device=self.rows.device)


class RowContract(Protocol):
    """The part of the contract that concerns the rows of a batch alone.

    fewest: the smallest number of instances in a batch, over all processes.
    gather: the batch is that of all processes together: True, or their group.
    rows: maps raw rows to the vectors whose inner products are read; None: scales them to unit length.
    """

    gather: Any

    @property
    def fewest(self) -> int: ...
    @property
    def rows(self) -> Callable[[Tensor], Tensor] | None: ...
    def parameters(self) -> Iterator[torch.nn.Parameter]: ...


class PairContract(RowContract, Protocol):
    """A function of similarities; ``objectives.PairwiseObjective`` implements all of it but the formula.

    reads: the similarity matrices, with x the anchors' view and y the other one.
        "cross" x_i·y_j, "same" x_i·x_j, "other" y_i·y_j, "back" y_i·x_j, "both" cross and same side by
        side. With more than two views "cross" has all others side by side.
    anchors: "first" (the rows of z1) or "both" (each view is the anchors once: two directions, or more).
    sum_directions: the losses of all directions are added, not averaged.
    joined: ``join`` turns the statistics of all directions into the losses of the instances.
    extra_negatives: the anchors that meet the extra negatives: "first" (the rows of z1) or "both".
    without_extra: the matrices of ``reads`` that do not show the extra negatives.
    one_sided: only anchors move; keys and positives carry no gradient.
    coupled: ``combine`` turns the statistics of all anchors into losses.
    labelled: the formula reads ``same_label``.
    reads_guide: the formula reads the guide's cosines.
    sees: "logsumexp", "hardest" or "all"; with the first two the formula must need nothing else of the negatives.
    scale: the factor of the similarities before they are exponentiated; for "logsumexp" alone.
    """

    reduction: str

    @property
    def reads(self) -> tuple[Read, ...]: ...
    @property
    def anchors(self) -> str: ...
    @property
    def sum_directions(self) -> bool: ...
    @property
    def extra_negatives(self) -> str: ...
    @property
    def without_extra(self) -> tuple[Read, ...]: ...
    @property
    def one_sided(self) -> bool: ...
    @property
    def coupled(self) -> bool: ...
    @property
    def joined(self) -> bool: ...
    @property
    def labelled(self) -> bool: ...
    @property
    def reads_guide(self) -> bool: ...
    @property
    def sees(self) -> Literal["logsumexp", "hardest", "all"]: ...
    @property
    def scale(self) -> Tensor | float | None: ...

    def metric(self, rows: Tensor) -> Tensor | None:
        """Weights (D,) of the coordinates in the inner product of two rows; None: all 1."""

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        """Anything that all anchors need of the whole views (N, D), computed once, without gradient."""

    def block(self, anchors: Anchors) -> Statistics:
        """Named numbers (B,) of each anchor; "loss" is the one to minimise unless ``combine`` makes it."""

    def block_from_logsumexp(
        self, anchors: Anchors, logsumexp: tuple[Tensor, ...], num_negatives: tuple[Tensor, ...]
    ) -> Statistics:
        """The same from log Σ exp(scale · s) (B,) and the number of negatives (B,), for each matrix."""

    def block_from_hardest(self, anchors: Anchors, hardest: tuple[Tensor, ...]) -> Statistics:
        """The same from the largest similarity (B,) of each matrix, -inf for an anchor without negatives."""

    def combine(self, statistics: Statistics) -> Statistics:
        """The losses (N,), or scalars, that follow from the statistics (N,) of all anchors, under the same names."""

    def join(self, by_direction: list[Statistics]) -> Statistics:
        """The losses (N,) of the instances, or scalars, from the statistics (N,) of all directions."""


class FeatureContract(RowContract, Protocol):
    """A function of the features of the whole batch, which costs N·D² and needs no blocks.

    labelled: ``features`` also gets the labels (N,), -1 if unknown, under that name.
    """

    @property
    def labelled(self) -> bool: ...

    def features(self, *views: Tensor) -> Statistics:
        """Scalars, "loss" among them, from all views (N, D)."""


# --------------------------------------------------------------------------------------- the scale of a log-sum-exp


@dataclass(frozen=True)
class Scale:
    """The factor of the similarities, and its value, read from its device once."""

    tensor: Tensor | float
    value: float

    @property
    def learned(self) -> bool:
        return isinstance(self.tensor, Tensor) and self.tensor.requires_grad


def usable_scale(objective: PairContract) -> Scale | None:
    """The scale of an objective that sees a log-sum-exp, if its exponentials need no shift to stay in float32; None:
    they may leave it, or there is no scale, so that ``block`` serves."""
    if objective.sees != "logsumexp" or objective.rows is not None or not objective.reads:
        return None
    with torch.enable_grad():  # it may be learned
        scale = objective.scale
    if scale is None:
        return None
    value = scale.item() if isinstance(scale, Tensor) else float(scale)
    return Scale(scale, value) if 0 < value <= MODERATE else None


# ------------------------------------------------------------------------------------- from anchors to the batch's loss


def needed_statistics(objective: PairContract, by_direction: list[Statistics], terms: bool) -> list[Statistics]:
    """The statistics that the values follow from: the loss alone, unless anchors are coupled or ``terms`` are asked
    for."""
    if terms or objective.coupled:
        return by_direction
    return [{"loss": statistics["loss"]} for statistics in by_direction]


def reduce_anchors(objective: PairContract, by_direction: list[Statistics], terms: bool = False) -> Statistics:
    """The "loss" and, if ``terms``, every other named number: combines and reduces the statistics of all anchors in
    each direction, then joins the directions."""
    if objective.joined:
        values = _reduced(objective, objective.join(by_direction), "join")
    else:
        reduced = [
            _reduced(objective, objective.combine(statistics) if objective.coupled else statistics, "combine")
            for statistics in needed_statistics(objective, by_direction, terms)
        ]
        values = {name: _join(objective, [each[name] for each in reduced]) for name in reduced[0]}
    return values if terms else {"loss": values["loss"]}


def _reduced(objective: PairContract, losses: Statistics, method: str) -> Statistics:
    if "loss" not in losses:
        names = ", ".join(losses) or "nothing"
        raise ValueError(f"{type(objective).__name__}.{method} names {names}, but no 'loss'")
    return {name: _reduce(value, objective.reduction) for name, value in losses.items()}


def uniform_weight(objective: PairContract, num_anchors: int, num_directions: int) -> float:
    """Weight of one anchor's loss in the reduced loss when anchors are not coupled."""
    share = 1.0 if objective.sum_directions else 1 / num_directions
    return 1.0 if objective.reduction == "sum" else share / num_anchors


def _reduce(value: Tensor, reduction: str) -> Tensor:
    if value.ndim == 0 or reduction == "none":
        return value
    if not value.is_floating_point():  # a count, or whether something holds
        value = value.to(torch.get_default_dtype())
    return value.sum() if reduction == "sum" else value.mean()


def _join(objective: PairContract, values: list[Tensor]) -> Tensor:
    if len(values) == 1:
        return values[0]
    if objective.reduction == "none":
        return torch.cat(values)
    total = torch.stack(values).sum(dim=0)
    return total if objective.reduction == "sum" or objective.sum_directions else total / len(values)
