"""Which temperature or margin suits the embeddings at hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.geometry import angle, chord, normalize

# Objective: what its gap is measured in, and its parameter at a gap for n negatives.
_GAPS = {
    "infonce": ("dot", "temperature"),
    "mpt": ("dot", "margin"),
    "met": ("euclidean", "margin"),
    "mat": ("angle", "margin"),
}


@dataclass(frozen=True)
class Advice:
    """A parameter that puts the edge of dissipation at a quantile of the measured gap, with the evidence."""

    objective: str
    parameter: str
    value: float
    quantile: float
    gap: float
    gaps: Tensor  # (N,) sorted
    negatives: int

    def __str__(self) -> str:
        low, middle, high = (torch.quantile(self.gaps, q).item() for q in (0.1, 0.5, 0.9))
        return (
            f"{self.objective}: {self.parameter} = {self.value:.4g}. The gap between an anchor's positive and its "
            f"negatives is {low:.3g}, {middle:.3g}, {high:.3g} (10, 50, 90 %) over {len(self.gaps)} anchors with "
            f"{self.negatives} negatives; at {self.gap:.3g} ({self.quantile:.0%}) the gradient dissipates."
        )


def advise(objective: str, z1: Tensor, z2: Tensor, quantile: float = 0.5) -> Advice:
    """The temperature (infonce: τ log n = gap) or margin (mpt, met, mat: m = gap) whose dissipation edge lies at the
    given quantile of the gaps measured on two views: below it anchors still move, above it they have stopped.

    The gap of InfoNCE is between the positive similarity and the softmax mean of the negatives, found for its own τ
    by iteration; that of a triplet between the nearest negative and the positive, in its own distance.

    >>> x = torch.eye(8, dtype=torch.float64)
    >>> round(advise("mpt", x, x).value, 6)
    1.0
    """
    if objective not in _GAPS:
        raise ValueError(f"there is advice for {', '.join(_GAPS)}, not for {objective!r}")
    if not 0 <= quantile <= 1:
        raise ValueError(f"a quantile is between 0 and 1, not {quantile}")
    if z1.ndim != 2 or z1.shape != z2.shape or len(z1) < 2:
        raise ValueError(f"advise needs two views of the same shape (N, D) and at least two rows, not "
                         f"{tuple(z1.shape)}, {tuple(z2.shape)}")  # fmt: skip
    h, other = (normalize(z.detach().double(), name)[0] for z, name in ((z1, "z1"), (z2, "z2")))
    similarity = h @ other.T
    positive = similarity.diagonal()
    negatives = similarity.masked_fill(torch.eye(len(h), dtype=torch.bool), -math.inf)
    kind, parameter = _GAPS[objective]
    number = len(h) - 1
    if objective == "infonce":
        if number < 2:
            raise ValueError("with one negative no temperature moves the edge where InfoNCE's gradient dissipates")
        gaps, value = _softmax_gaps(positive, negatives, number, quantile)
    else:
        distances: dict[str, Callable[[Tensor], Tensor]] = {"dot": torch.neg, "euclidean": chord, "angle": angle}
        distance = distances[kind]
        gaps = distance(negatives.amax(dim=1)) - distance(positive)
        value = torch.quantile(gaps, quantile).item()
    if not value > 0:
        raise ValueError(
            f"at the {quantile:.0%} quantile the positive is not closer than the negatives (gap {value:.3g}): "
            "train further, or take a higher quantile"
        )
    gap = torch.quantile(gaps, quantile).item()
    return Advice(objective, parameter, value, quantile, gap, gaps.sort().values, number)


def _softmax_gaps(positive: Tensor, negatives: Tensor, number: int, quantile: float) -> tuple[Tensor, float]:
    """Gaps s_ii - τ log mean e^{s_ij/τ} and the τ with τ log n equal to their quantile, i.e. GD = 1/2 there.

    GD_i = 1/2 where s_ii = τ log Σ_j e^{s_ij/τ}; the excess of the quantile over 0 falls with τ, so bisection finds it.
    """
    low, high = 1e-4, 10.0
    for _ in range(80):
        tau = math.sqrt(low * high)
        excess = torch.quantile(positive - tau * torch.logsumexp(negatives / tau, dim=1), quantile).item()
        low, high = (tau, high) if excess > 0 else (low, tau)
    tau = math.sqrt(low * high)
    mean = tau * (torch.logsumexp(negatives / tau, dim=1) - math.log(number))
    return positive - mean, tau if tau > 2e-4 else 0.0
