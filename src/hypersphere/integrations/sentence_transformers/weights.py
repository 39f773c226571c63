"""Negatives that count more than others in a softmax: an instance's own hard negatives, or the harder ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Inputs, Statistics
from hypersphere.objectives.base import Objective, PairwiseObjective

HARDNESS_ON = ("in_batch", "hard", "all")


@dataclass(frozen=True)
class Weighting:
    """The factor e^{w} of a negative in the softmax, w = ``own`` for the anchor's own hard negatives (SimCSE's
    hard_negative_weight) plus ``hardness`` · cos for those of ``hardness_on``; the weights carry no gradient.

    hardness_on: "in_batch" (all but the own hard negatives; Lan et al. 2025), "hard" (these alone; Schechter Vera et
    al. 2025) or "all".
    """

    own: float = 0.0
    hardness: float = 0.0
    hardness_on: str = "in_batch"

    def __post_init__(self) -> None:
        if self.hardness < 0:
            raise ValueError(f"hardness must be at least 0, not {self.hardness!r}")
        if self.hardness_on not in HARDNESS_ON:
            raise ValueError(f"hardness_on must be {' or '.join(map(repr, HARDNESS_ON))}, not {self.hardness_on!r}")

    def __bool__(self) -> bool:
        return self.own != 0 or self.hardness != 0

    def check(self, objective: Objective) -> None:
        """Raises unless every part of the objective is a softmax."""
        if "negatives" not in objective.takes:
            raise ValueError(f"{objective.name} has no negatives, so hard_negative_weight and hardness do not apply")
        objective.map_pairwise(_require_scale)

    def evaluate(self, objective: Objective, inputs: Inputs, owners: Tensor, terms: bool) -> Statistics:
        """The objective's numbers with these weights. ``owners``: for each extra negative of all processes, the index
        of its instance in the batch."""
        seen = objective.map_pairwise(lambda part: WeightedNegatives(part, self, owners))
        values: Statistics = seen.evaluate(inputs, terms)
        return values


def _require_scale(part: PairwiseObjective) -> PairwiseObjective:
    if part.scale is None:
        raise ValueError(
            f"{part.name} has no softmax over its negatives, so hard_negative_weight and hardness have no meaning: "
            "leave them out, or take infonce, dcl, dhel or ntxent"
        )
    return part


@dataclass(frozen=True)
class WeightedNegatives:
    """A pairwise objective as the engine sees it, with w / scale added to the similarities of weighted negatives."""

    inner: PairwiseObjective
    weighting: Weighting
    owners: Tensor  # (M,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # all else is the objective's own

    def evaluate(self, *batch: Any, **how: Any) -> Statistics:
        seen: Any = self
        values: Statistics = type(self.inner).evaluate(seen, *batch, **how)
        return values

    @property
    def sees(self) -> str:
        return "all"  # the weights differ from entry to entry

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        return len(x), self.inner.prepare(x, y)

    def block(self, anchors: Anchors) -> Statistics:
        size, context = anchors.context
        reads = zip(self.inner.reads, anchors.negatives, strict=True)
        negatives = tuple(
            self._weighted(anchors, matrix, 2 * size if read == "both" else size) for read, matrix in reads
        )
        return self.inner.block(replace(anchors, negatives=negatives, context=context))

    def _weighted(self, anchors: Anchors, matrix: Tensor, batch_columns: int) -> Tensor:
        """A matrix (B, batch_columns) or (B, batch_columns + M), the latter if it shows the extra negatives."""
        own = torch.zeros_like(matrix, dtype=torch.bool)
        if matrix.shape[1] > batch_columns:
            own[:, batch_columns:] = self.owners == anchors.indices.unsqueeze(1)
        on = {"in_batch": ~own, "hard": own, "all": torch.ones_like(own)}[self.weighting.hardness_on]
        weight = self.weighting.own * own + self.weighting.hardness * matrix.detach() * on
        weighted: Tensor = matrix + weight / self.inner.scale
        return weighted
