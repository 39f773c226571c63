"""Geometry and anatomy of the anchors of a batch, and how the numbers of several batches are pooled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hypersphere.anatomy import dissect
from hypersphere.anatomy.anatomy import DISSIPATED
from hypersphere.diagnostics.measures import chordal
from hypersphere.geometry import angle, unit
from hypersphere.objectives import CLOA, FeatureObjective

LEMMA_STEP = 0.1  # the step λ for which Lemma 1 is checked
ANATOMY = ("dissipation", "with_gradient", "hardest_weight", "ratio", "lemma1")
_SOME_ANCHORS = 8  # a loss that is not a function of similarities is evaluated once more for each of these


class Moments(NamedTuple):
    """Size, mean and variance (mean squared deviation) of a set of numbers."""

    size: int
    mean: float
    variance: float

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        values = values.double()
        if values.numel() == 0:
            return cls(0, math.nan, math.nan)
        return cls(values.numel(), values.mean().item(), values.var(correction=0).item())


@dataclass(frozen=True)
class Geometry:
    """Cosines, angles and gaps of the cross-view pairs of a batch; tensors have one entry for each anchor, NaN if the
    anchor has no negative."""

    positive: Tensor
    positive_angle: Tensor
    negative: Moments
    negative_absolute: Moments
    negative_angle: Moments
    gap: Tensor
    hardest_gap: Tensor

    @classmethod
    def of(cls, z1: Tensor, z2: Tensor, dropped: Tensor | None = None) -> Geometry:
        """dropped: (N, N) True at pairs that are no negatives."""
        one, other = unit(z1), unit(z2)
        cosine = one @ other.T
        left = ~torch.eye(len(cosine), dtype=torch.bool)
        if dropped is not None:
            left &= ~dropped
        positive, negative = cosine.diagonal(), cosine[left]
        hardest = torch.where(left, cosine, -math.inf).amax(dim=1)
        distance = (2 - 2 * chordal(one, other)).clamp_min(0).sqrt()
        return cls(
            positive,
            2 * torch.atan2((one - other).norm(dim=1), (one + other).norm(dim=1)),  # accurate at small angles too
            Moments.of(negative),
            Moments.of(negative.abs()),
            Moments.of(angle(negative)),
            torch.where(left, distance, 0).sum(dim=1) / left.sum(dim=1) - distance.diagonal(),
            torch.where(hardest.isfinite(), positive - hardest, math.nan),
        )


def pool(batches: Sequence[Geometry]) -> dict[str, float]:
    """The numbers of all batches: every anchor counts once among anchors, every pair once among pairs."""
    positive = torch.cat([each.positive for each in batches])
    metrics = {"positive_absolute": positive.abs().mean().item()}
    for name, moments in (
        ("positive", Moments.of(positive)),
        ("negative", _merged([each.negative for each in batches])),
    ):
        metrics[f"{name}_cosine"], metrics[f"{name}_spread"] = moments.mean, math.sqrt(moments.variance)
    for name, moments in (
        ("positive_angle", Moments.of(torch.cat([each.positive_angle for each in batches]))),
        ("negative_angle", _merged([each.negative_angle for each in batches])),
    ):
        metrics[name], metrics[f"{name}_spread"] = moments.mean, math.sqrt(moments.variance)
    metrics["negative_absolute"] = _merged([each.negative_absolute for each in batches]).mean
    for name in ("gap", "hardest_gap"):
        values = torch.cat([getattr(each, name) for each in batches])
        values = values[~values.isnan()]
        if len(values) == 0:
            continue
        metrics[name] = values.mean().item()
        for percent in (10, 50, 90):
            metrics[f"{name}_{percent}"] = torch.quantile(values, percent / 100).item()
    return metrics


def _merged(parts: Sequence[Moments]) -> Moments:
    parts = [part for part in parts if part.size]
    size = sum(part.size for part in parts)
    if size == 0:
        return Moments(0, math.nan, math.nan)
    mean = sum(part.size * part.mean for part in parts) / size
    spread = sum(part.size * (part.variance + (part.mean - mean) ** 2) for part in parts)
    return Moments(size, mean, spread / size)


@dataclass(frozen=True)
class Anchors:
    """What the objective does to the anchors of a batch. Tensors have one entry for each anchor, NaN if undefined."""

    features: bool  # the objective compares features
    dissipation: Tensor
    moving: Tensor  # whether any gradient reaches the anchor
    hardest_share: Tensor
    ratio: Tensor
    lemma1: Tensor

    @classmethod
    def of(
        cls,
        objective: Callable[..., Any],
        z1: Tensor,
        z2: Tensor,
        labels: Tensor | None,
        known: Mapping[str, Any],
        reasons: dict[str, str],
    ) -> Anchors | None:
        """Dissects the objective. If that is impossible, returns None and adds a reason to ``reasons``."""
        if isinstance(objective, CLOA):
            objective = objective.base
            reasons["anatomy"] = (
                "of the base: the pull towards the anchors of the classes is not a matter of similarities"
            )
        features = isinstance(objective, FeatureObjective)
        try:
            anatomy = dissect(objective, z1, z2, labels, **known, most_anchors=1 if features else _SOME_ANCHORS)
        except (RuntimeError, ValueError) as problem:
            reasons["anatomy"] = f"the objective cannot be taken apart: {problem}"
            return None
        lemma1 = anatomy.lemma1(LEMMA_STEP)
        return cls(features, anatomy.dissipation, anatomy.moving, anatomy.hardest_share, anatomy.ratio, lemma1)


def of_the_anchors(batches: Sequence[Anchors], reasons: dict[str, str]) -> dict[str, float]:
    """Dissipation, weight, ratio and Lemma 1 over the anchors of all batches. A number that has no meaning is left out;
    ``reasons`` explains why."""
    if not batches:
        return {}
    dissipation, moving, share, ratio, lemma1 = (
        torch.cat([getattr(each, name) for each in batches])
        for name in ("dissipation", "moving", "hardest_share", "ratio", "lemma1")
    )
    metrics: dict[str, float] = {}
    dissipation = dissipation[dissipation.isfinite()]
    if batches[0].features:
        reasons["dissipation"] = "the objective compares features: no anchor has a gate of its own"
    elif len(dissipation) == 0:
        reasons["dissipation"] = "no negative has any coefficient"
    elif dissipation.min() < -1e-6 or dissipation.max() > 1 + 1e-6:
        reasons["dissipation"] = "not between 0 and 1: the positive does not merely close a gate here"
    else:
        metrics["dissipation"] = dissipation.mean().item()
    open_gates = dissipation >= DISSIPATED if "dissipation" in metrics else moving
    metrics["with_gradient"] = open_gates.double().mean().item()
    if not moving.any():
        reasons["hardest_weight"] = reasons["ratio"] = reasons["lemma1"] = "no anchor receives any gradient"
        return metrics
    weights = share[moving & share.isfinite()]
    if len(weights):
        metrics["hardest_weight"] = weights.mean().item()
    chosen = moving & ratio.isfinite()
    if chosen.any():
        metrics["ratio"] = ratio[chosen].median().item()
        metrics["lemma1"] = lemma1[chosen].double().mean().item()
    return metrics
