"""What the engine needs from an objective, and what it passes to it.

An objective declares what it sees of its negatives (``sees``), in one of three ways:

| sees | the engine calls | with | loop |
|---|---|---|---|
| "logsumexp" | ``block_from_logsumexp`` | log Σ_j exp(scale · s_ij) for each matrix | streaming/logsumexp.py |
| "hardest" | ``block_from_hardest`` | max_j s_ij for each matrix | streaming/hardest.py |
| "all" | ``block`` | the matrices themselves | streaming/general.py |

``block`` serves where a summary does not: log-sum-exp with a scale that is None or above 40, or with rows of its own;
each anchor's own negatives; the derivatives of torch.func; and the hardest negative in a small batch, which is a single
dense block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

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
