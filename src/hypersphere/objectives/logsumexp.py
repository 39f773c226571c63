"""Objectives that see only log Σ exp(scale · s) of their negatives."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, count, masked_logsumexp
from hypersphere.objectives.base import PairwiseObjective, like_negatives


def energy_of(logsumexp: Tensor, num_negatives: Tensor) -> Tensor:
    """The logarithm of a sum over the anchor's negatives as an energy: 0 for an anchor without negatives."""
    return torch.where(num_negatives > 0, logsumexp, 0)


def logsumexp_of(logarithms: Sequence[Tensor]) -> Tensor:
    """log Σ exp of several numbers for each anchor, of which some or all may be -inf: K times (B,) -> (B,)."""
    stacked = torch.stack(list(logarithms))
    known = stacked.clamp_min(torch.finfo(stacked.dtype).min / 2)  # finite: log Σ exp(-inf) has no gradient
    return torch.where((stacked > -inf).any(dim=0), torch.logsumexp(known, dim=0), -inf)


def energy_of_all(logsumexp: Tensor, num_negatives: Tensor, shift: float) -> Tensor:
    """Logarithm of the mean over the pairs of all anchors, less ``shift``: 0 if there is no pair. (N,), (N,) -> ()."""
    pairs = num_negatives.sum()
    known = energy_of(logsumexp, pairs)  # finite: log Σ exp(-inf) has no gradient
    return energy_of(torch.logsumexp(known, dim=0) - pairs.clamp_min(1).log() - shift, pairs)


class LogSumObjective(PairwiseObjective):
    """An objective of the positive and of log Σ exp(scale · s): define ``from_logsumexp``.

    The engine then needs one pass over the similarities, and computes each pair once where two rows see each other.
    A subclass that defines ``per_anchor`` or ``block`` is streamed through that method, like any other objective.
    """

    temperature: float

    @property
    def scale(self) -> Tensor | float | None:
        """The factor of the similarities; None: these settings need more than the sums, see ``fallback``."""
        return 1 / self.temperature

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Tensor | Statistics:
        """The loss, as ``per_anchor`` returns it, from the positives (B,), the logarithms (B,) and the number (B,) of
        negatives; tuples of the last two if ``negatives`` is a tuple."""
        raise TypeError(f"{type(self).__name__} must define from_logsumexp")

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Tensor | Statistics:
        """What ``per_anchor`` returns where there is no scale."""
        raise TypeError(f"{type(self).__name__} has no scale with these settings and must define fallback")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor | Statistics:
        scale = self.scale
        if scale is None:
            return self.fallback(positive, negatives, mask)
        if isinstance(negatives, Tensor):
            return self.from_logsumexp(positive, masked_logsumexp(negatives, mask, scale), count(mask))
        logsumexp = [masked_logsumexp(matrix, each, scale) for matrix, each in zip(negatives, mask, strict=True)]
        return self.from_logsumexp(positive, tuple(logsumexp), tuple(count(each) for each in mask))

    def block_from_logsumexp(
        self, anchors: Anchors, logsumexp: tuple[Tensor, ...], num_negatives: tuple[Tensor, ...]
    ) -> Statistics:
        summary = like_negatives(self, logsumexp), like_negatives(self, num_negatives)
        return self.finish_block(self.from_logsumexp(anchors.positive, *summary), anchors)

    @property
    def sees(self) -> Any:
        return "logsumexp" if self.scale is not None and self.defines("from_logsumexp") else "all"
