"""What the engine asks of an objective, and what it hands to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

Read = Literal["cross", "same", "other", "both", "fixed_keys", "fixed_rows"]
Statistics = dict[str, Tensor]


@dataclass(frozen=True)
class Anchors:
    """A block of B anchors, as an objective sees it. Rows are unit vectors, D their dimension, N the batch.

    The columns of a similarity matrix are the batch (N of them; "both": 2N) followed by the extra negatives.
    """

    rows: Tensor  # (B, D) the anchors x_i
    others: Tensor  # (B, D) their other views y_i
    places: Tensor  # (B,) where in the batch they stand
    positive: Tensor  # (B,) x_i·y_i
    negatives: tuple[Tensor, ...]  # (B, M) one matrix for each name the objective reads
    mask: Tensor  # (B, M) True where a column is a negative: False at the anchor's own instance
    relatives: Tensor | None  # (B, M) True at other instances of the anchor's label; only if objective.labelled
    labels: Tensor | None  # (B,) -1 means unlabelled
    context: Any  # what objective.prepare returned


class Rowwise(Protocol):
    """What concerns the rows of a batch alone.

    fewest: so many instances a batch has at least, of all processes together.
    gather: the batch is that of all processes together.
    rows: how raw rows become the vectors whose inner products are read; None: by scaling to unit length.
    fixed: what is made of a view's unit rows (N, D) and their inverse lengths (N, 1): N vectors f(x)_i that carry no
        gradient, for who reads "fixed_keys" or "fixed_rows". None: nothing.
    """

    gather: bool

    @property
    def fewest(self) -> int: ...
    @property
    def rows(self) -> Callable[[Tensor], Tensor] | None: ...
    @property
    def fixed(self) -> Callable[[Tensor, Tensor], Tensor] | None: ...
    def parameters(self) -> Iterator[torch.nn.Parameter]: ...


class Evaluable(Rowwise, Protocol):
    """The engine's view of an objective; ``objectives.PairwiseObjective`` implements all of it but the formula.

    reads: the similarity matrices wanted, with x the anchors' view and y the other one.
        "cross" x_i·y_j, "same" x_i·x_j, "other" y_i·y_j, "both" cross and same side by side; without extra negatives
        "fixed_keys" x_i·f(y)_j, which moves x alone, and "fixed_rows" f(x)_i·y_j, which moves y alone.
    anchors: "first" (the rows of z1 are anchors) or "both" (the two views take turns, stacked to 2N anchors).
    extra_negatives: the anchors that meet the extra negatives: "first" (the rows of z1) or "both".
    one_sided: keys carry no gradient, and neither do positives unless ``positives_move``.
    coupled: ``combine`` is needed to turn what anchors say into losses.
    pooled: the one statistic that depends on the negatives, if ``combine`` needs only the logarithm of the sum of its
        exponentials and all else depends on positives: then one sweep does for two, as long as its values lie within
        some 60 of each other. None: not so.
    """

    reduction: str

    @property
    def reads(self) -> tuple[Read, ...]: ...
    @property
    def anchors(self) -> str: ...
    @property
    def extra_negatives(self) -> str: ...
    @property
    def one_sided(self) -> bool: ...
    @property
    def positives_move(self) -> bool: ...
    @property
    def coupled(self) -> bool: ...
    @property
    def pooled(self) -> str | None: ...
    @property
    def labelled(self) -> bool: ...
    @property
    def turns_add(self) -> bool: ...

    def log_sums(self) -> tuple[Tensor | float, Callable[[Anchors, Sequence[Tensor], Tensor], Statistics]] | None:
        """If anchors see nothing of their negatives but log Σ exp(scale · s): the scale, and what ``block`` answers
        from anchors without matrices and mask, these logarithms (B,), one for each matrix, and the number (B,) of
        negatives. None: not so."""

    def metric(self, rows: Tensor) -> Tensor | None:
        """Weights (D,) of the coordinates in the inner product of two rows; None: all 1."""

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        """Anything all anchors need to know of the whole views (N, D), computed once, without gradient."""

    def block(self, anchors: Anchors) -> Statistics:
        """Named numbers (B,) for each anchor; "loss" is the one to minimise unless ``combine`` makes it."""

    def combine(self, statistics: Statistics) -> Statistics:
        """From everybody's statistics (N,): losses (N,), or scalars, under the same names."""


class Whole(Rowwise, Protocol):
    """An objective of the features of the whole batch, which costs N·D² and needs no blocks."""

    def features(self, z1: Tensor, z2: Tensor) -> Statistics:
        """Scalars, "loss" among them, from both views (N, D)."""
