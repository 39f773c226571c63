"""Which temperature or margin suits the embeddings at hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy.evidence import random_batches
from hypersphere.geometry import angle, chord, normalize
from hypersphere.names import did_you_mean
from hypersphere.objectives import list_objectives
from hypersphere.objectives.registry import is_registered, objective_class

# Objectives whose positive competes with a log-sum-exp of negatives: the view of the negatives, and the similarity.
_SOFTMAX: dict[str, tuple[str, str]] = {
    "infonce": ("cross", "cosine"),
    "dcl_plus": ("cross", "cosine"),
    "arccon": ("cross", "shifted"),
    "ntxent": ("both", "cosine"),
    "supcon": ("both", "cosine"),
    "geodesic": ("both", "angle"),
}
# Objectives whose gate closes when the nearest negative of the other view is a margin farther than the positive.
_MARGIN: dict[str, Callable[[Tensor], Tensor]] = {
    "mpt": torch.neg,
    "met": chord,
    "mat": angle,
    "triplet": chord,
    **dict.fromkeys(("mmhe", "mmhs", "mbarlow", "mvicreg"), torch.neg),
}
_NEVER_STOPS = (
    "the gradient never dissipates, so there is no edge to place; sweep the temperature with 'hypersphere dissect' and "
    "read the effective negatives"
)
_WITHOUT = {
    **dict.fromkeys(("dcl", "dclw", "dhel"), _NEVER_STOPS),
    "siglip": "every pair has a sigmoid of its own, so positives close no gate; both its numbers are learned",
    "debiased": "its correction takes the positive out of the negatives, so that a close positive opens the gate; take "
    "ntxent's",
    "hyperbolic": "it reads the lengths of raw rows and hyperbolic distances; sweep it with 'hypersphere dissect'",
    "paradigm": "its dissipation is a component of its own; take mpt's for dissipation margin, met's for euclidean, "
    "mat's for angle, infonce's for softmax",
    "mixup": "it has those of its base: take the base's advice, for a batch that has the mixed negatives too",
    "cloa": "only its base has a temperature or margin: take the base's advice",
}
_UNKNOWN = "where its gate closes is not known; sweep it: hypersphere dissect"
NEITHER = "it has neither a temperature nor a margin"
CONE = 0.5  # a mean cosine of different rows above which embeddings look untrained
CAVEAT = (
    "Measured on the embeddings as they are. Training widens the gap, so embeddings that were not trained yet say "
    "little about the temperature or margin to train with: measure again after some hundred steps."
)


@dataclass(frozen=True)
class Advice:
    """A parameter that puts the edge of dissipation at a quantile of the measured gap, with the evidence.

    gaps (N,): sorted; negatives: of each anchor; default: the objective's own value; past_default: share of anchors
    that have passed the edge with it; cosine: mean over different rows.
    """

    objective: str
    parameter: str
    value: float
    quantile: float
    gap: float
    gaps: Tensor = field(repr=False)
    negatives: int
    default: float
    past_default: float
    cosine: float

    @property
    def spread(self) -> tuple[float, float, float]:
        """The gap at 10, 50 and 90 %."""
        low, middle, high = (torch.quantile(self.gaps, q).item() for q in (0.1, 0.5, 0.9))
        return low, middle, high

    @property
    def caveat(self) -> str:
        """Reasons to distrust the number."""
        if self.cosine <= CONE:
            return CAVEAT
        return (
            f"Different rows have a cosine of {self.cosine:.2f} on average: these embeddings look untrained. {CAVEAT}"
        )

    def __str__(self) -> str:
        low, middle, high = self.spread
        return (
            f"{self.objective}: {self.parameter} = {self.value:.4g}. The gap between an anchor's positive and its "
            f"negatives is {low:.3g}, {middle:.3g}, {high:.3g} (10, 50, 90 %) over {len(self.gaps)} anchors with "
            f"{self.negatives} negatives; at {self.gap:.3g} ({self.quantile:.0%}) the gradient dissipates. With the "
            f"default {self.default:.4g}, {self.past_default:.0%} of the anchors are past that point. {self.caveat}"
        )


def list_advice() -> dict[str, str]:
    """Every objective with a temperature or a margin: "" where advice exists, else the reason why none does."""
    known = {name: why_not(name) for name in list_objectives()}
    return {name: reason for name, reason in known.items() if reason != NEITHER}


def why_not(name: str) -> str:
    """Why there is no advice for an objective; "" if there is."""
    has = sorted({"temperature", "margin"} & set(objective_class(name).settings()))
    if name in _SOFTMAX or name in _MARGIN:
        return ""
    if name in _WITHOUT or not has:
        return _WITHOUT.get(name, NEITHER)
    return f"{_UNKNOWN} {name} {has[-1]}=0.05,0.1,0.2,0.5"


def advise(
    objective: str, z1: Tensor, z2: Tensor, quantile: float = 0.5, *, batch_size: int | None = None, seed: int = 0
) -> Advice:
    """The temperature (τ log n = gap) or margin (m = gap) whose dissipation edge lies at the given quantile of the gaps
    measured on two views: below it anchors still move, above it they have stopped.

    The gap of a softmax is between the positive similarity and the softmax mean of the negatives. Iteration finds it
    for its own τ. The gap of a triplet is between the nearest negative and the positive, in the triplet's distance.
    Both depend on the number of negatives: ``batch_size`` measures in random batches of that many rows, as in training,
    instead of all rows at once.

    >>> x = torch.eye(8, dtype=torch.float64)
    >>> round(advise("mpt", x, x).value, 6)
    1.0
    """
    _check(objective, z1, z2, quantile, batch_size)
    h, other = (normalize(z.detach().double(), name)[0] for z, name in ((z1, "z1"), (z2, "z2")))
    batches = random_batches(len(h), batch_size, seed)
    size = len(batches[0])
    reads, kind = _SOFTMAX.get(objective, ("cross", "cosine"))
    pairs = [_similarities(h[rows], other[rows], reads) for rows in batches]
    positive, negatives = (torch.cat(part) for part in zip(*pairs, strict=True))
    num_negatives = (size - 1) * (2 if reads == "both" else 1)
    usual = float(_default(objective))
    if objective in _SOFTMAX:
        if num_negatives < 2:
            raise ValueError(f"with one negative no temperature moves the edge where {objective}'s gradient dissipates")
        gaps, value, past = _by_temperature(kind, positive, negatives, num_negatives, quantile, usual)
    else:
        distance = _MARGIN[objective]
        gaps = distance(negatives.amax(dim=1)) - distance(positive)
        value = torch.quantile(gaps, quantile).item()
        past = (gaps >= usual).double().mean().item()
    if not value > 0:
        raise ValueError(
            f"at the {quantile:.0%} quantile the positive is not closer than the negatives (gap {value:.3g}): "
            "train further, or take a higher quantile"
        )
    return Advice(
        objective, "temperature" if objective in _SOFTMAX else "margin", value, quantile,
        torch.quantile(gaps, quantile).item(), gaps.sort().values, num_negatives, usual, past,
        negatives[negatives.isfinite()].mean().item(),
    )  # fmt: skip


def _check(objective: str, z1: Tensor, z2: Tensor, quantile: float, batch_size: int | None) -> None:
    if not is_registered(objective):
        given = [name for name, reason in list_advice().items() if not reason]
        hint = did_you_mean(objective, given) or f"; there is advice for {', '.join(given)}"
        raise ValueError(f"there is no objective {objective!r}{hint}")
    if reason := why_not(objective):
        raise ValueError(f"there is no advice for {objective}: {reason}")
    if not 0 <= quantile <= 1:
        raise ValueError(f"a quantile is between 0 and 1, not {quantile}")
    if z1.ndim != 2 or z1.shape != z2.shape or len(z1) < 2:
        raise ValueError(f"advise needs two views of the same shape (N, D) and at least two rows, not "
                         f"{tuple(z1.shape)}, {tuple(z2.shape)}")  # fmt: skip
    if batch_size is not None and batch_size < 2:
        raise ValueError(f"a batch has at least two rows, not {batch_size}")


def _default(objective: str) -> Any:
    settings = objective_class(objective).settings()
    if objective == "triplet":
        return objective_class("met").settings()["margin"].default  # its own distance is Euclidean too
    return settings["temperature" if objective in _SOFTMAX else "margin"].default


def _similarities(h: Tensor, other: Tensor, reads: str) -> tuple[Tensor, Tensor]:
    """Cosines of the positives (B,) and of the negatives (B, B or 2B), -∞ at the anchor's own instance."""
    own = torch.eye(len(h), dtype=torch.bool, device=h.device)
    views = [h @ other.T] + ([h @ h.T] if reads == "both" else [])
    return views[0].diagonal(), torch.cat([view.masked_fill(own, -math.inf) for view in views], dim=1)


def _by_temperature(
    kind: str, positive: Tensor, negatives: Tensor, num_negatives: int, quantile: float, usual: float
) -> tuple[Tensor, float, float]:
    """Gaps s_ii - τ log mean e^{s_ij/τ}, the τ with τ log n equal to their quantile, i.e. GD = 1/2 there, and the share
    of anchors with GD < 1/2 at the usual τ.

    GD_i = 1/2 where s_ii = τ log Σ_j e^{s_ij/τ}; the excess of the quantile over 0 falls with τ, so bisection finds it.
    """
    if kind == "angle":
        positive, negatives = -angle(positive), torch.where(negatives.isfinite(), -angle(negatives), -math.inf)
    elif kind == "shifted":
        positive = torch.cos(angle(positive) + objective_class("arccon").settings()["angle"].default)

    def excess(tau: float) -> Tensor:
        return positive - tau * torch.logsumexp(negatives / tau, dim=1)

    low, high = 1e-4, 10.0
    for _ in range(60):
        tau = math.sqrt(low * high)
        low, high = (tau, high) if torch.quantile(excess(tau), quantile) > 0 else (low, tau)
    tau = math.sqrt(low * high)
    gaps = excess(tau) + tau * math.log(num_negatives)
    return gaps, tau if tau > 2e-4 else 0.0, (excess(usual) > 0).double().mean().item()
