"""Objectives that see nothing of their negatives but log Σ exp(scale · s)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, count, masked_logsumexp
from hypersphere.objectives.base import PairwiseObjective


def energy_of(log_sum: Tensor, number: Tensor) -> Tensor:
    """The logarithm of a sum over the anchor's negatives as an energy: 0 where it has none."""
    return torch.where(number > 0, log_sum, 0)


def energy_of_all(log_sums: Tensor, number: Tensor, shift: float) -> Tensor:
    """Logarithm of the mean over the pairs of all anchors, less ``shift``: 0 if there is no pair. (N,), (N,) -> ()."""
    pairs = number.sum()
    known = energy_of(log_sums, pairs)  # finite: log Σ exp(-inf) has no gradient
    return energy_of(torch.logsumexp(known, dim=0) - pairs.clamp_min(1).log() - shift, pairs)


class LogSumObjective(PairwiseObjective):
    """Say what an anchor makes of its positive and of log Σ exp(scale · s), one number for each matrix that is read.

    The engine then needs one pass over the similarities, and each pair only once where two rows see each other. A
    descendant that defines ``per_anchor`` is streamed by that, like any other objective.
    """

    temperature: float

    @property
    def scale(self) -> Tensor | float | None:
        """What similarities are multiplied with; None: with these settings sums are not all, see ``otherwise``."""
        return 1 / self.temperature

    def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Statistics:
        """From the positives (B,), the logarithms (B,), and the number (B,) of negatives."""
        raise TypeError(f"{type(self).__name__} must define of_sums")

    def otherwise(self, positive: Tensor, negatives: Any, mask: Tensor) -> Statistics:
        """What ``per_anchor`` answers where there is no scale."""
        raise TypeError(f"{type(self).__name__} has no scale with these settings and must define otherwise")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Statistics:
        matrices, scale = [negatives] if isinstance(negatives, Tensor) else negatives, self.scale
        if scale is None:
            return self.otherwise(positive, negatives, mask)
        return self.of_sums(positive, [masked_logsumexp(matrix, mask, scale) for matrix in matrices], count(mask))

    def answer(self, anchors: Anchors, sums: Sequence[Tensor], number: Tensor) -> Statistics:
        """What ``block`` would answer; overridden together with it."""
        return self.named(self.of_sums(anchors.positive, sums, number), anchors)

    def log_sums(self) -> tuple[Tensor | float, Callable[[Anchors, Sequence[Tensor], Tensor], Statistics]] | None:
        scale = self.scale
        # One that changes how similarities are used is not to be asked about sums.
        known = self._definition("of_sums") < self._definition("per_anchor")
        known = known and self._definition("answer") <= self._definition("block")
        known = known and type(self).metric is PairwiseObjective.metric
        return (scale, self.answer) if scale is not None and known else None

    def _definition(self, name: str) -> int:
        """How far up from this very object the first one stands that defines it."""
        return next(i for i, each in enumerate((self, *type(self).__mro__)) if name in vars(each))
