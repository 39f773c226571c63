"""Objectives that see nothing of their negatives but log Σ exp(scale · s)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from hypersphere.engine import Anchors, Statistics, count, masked_logsumexp
from hypersphere.objectives.base import PairwiseObjective


class LogSumObjective(PairwiseObjective):
    """Say what an anchor makes of its positive and of log Σ exp(scale · s), one number for each matrix that is read.

    The engine then needs one pass over the similarities, and each pair only once where two rows see each other.
    """

    temperature: float

    @property
    def scale(self) -> Tensor | float | None:
        """What similarities are multiplied with; None: with these settings ``per_anchor`` sees more than the sums."""
        return 1 / self.temperature

    def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Statistics:
        """From the positives (B,), the logarithms (B,), and the number (B,) of negatives."""
        raise TypeError(f"{type(self).__name__} must define of_sums")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Statistics:
        matrices, scale = [negatives] if isinstance(negatives, Tensor) else negatives, self.scale
        assert scale is not None
        return self.of_sums(positive, [masked_logsumexp(matrix, mask, scale) for matrix in matrices], count(mask))

    def answer(self, anchors: Anchors, sums: Sequence[Tensor], number: Tensor) -> Statistics:
        """What ``block`` would answer; overridden together with it."""
        return self.of_sums(anchors.positive, sums, number)

    def log_sums(self) -> tuple[Tensor | float, Callable[[Anchors, Sequence[Tensor], Tensor], Statistics]] | None:
        scale = self.scale
        # A class that changes only how similarities are used is not to be asked about sums.
        known = self._definition("of_sums", "answer") <= self._definition("per_anchor", "block")
        return (scale, self.answer) if scale is not None and known else None

    def _definition(self, *names: str) -> int:
        """How far up from this very object the first one stands that defines one of these."""
        line = (self, *type(self).__mro__)
        return next(i for i, each in enumerate(line) if any(name in vars(each) for name in names))
