"""What two views of a batch say about a run: its losses, its geometry, and what the objective does to it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.anatomy import Anatomy, dissect
from hypersphere.diagnostics import alignment, effective_rank, participation_ratio, total_variance, uniformity
from hypersphere.diagnostics.measures import chordal
from hypersphere.geometry import unit
from hypersphere.objectives import Objective, create_objective
from hypersphere.objectives.base import FeatureObjective

DISSIPATED = 0.01  # below this an anchor's gradient counts as dissipated (Li et al. 2024, Fig. 4)
LEMMA_STEP = 0.1  # the step λ for which Lemma 1 is checked
ANATOMY = ("dissipation", "with_gradient", "hardest_weight", "ratio", "lemma1")
_SOME_ANCHORS = 8  # a loss that is not a function of similarities is evaluated once more for each of these


@dataclass(frozen=True)
class Measurements:
    """Numbers of one batch; NaN where a number has no meaning, and ``reasons`` says why.

    objective: its value; infonce: at one temperature, so that runs with different objectives can be compared.
    alignment, uniformity: of Wang and Isola with α = t = 2, uniformity as the mean of both views.
    *_cosine, *_spread, *_absolute: mean, standard deviation, and mean of the absolute value of the cosines of positive
        pairs (h_i, h'_i) and negative pairs (h_i, h'_j), i ≠ j.
    gap: d_ij of Nie et al. 2023, Fig. 3: mean distance to the negatives minus distance to the positive, Euclidean, mean
        over anchors and 10, 50, 90 % quantiles; hardest_gap: cosine of the positive minus that of the hardest negative.
    dissipation: mean GD_i; with_gradient: share of anchors whose GD_i is at least 0.01.
    hardest_weight: share of the hardest negative in the weight, mean; ratio: median of R_i; lemma1: share of anchors
        whose ratio brings them closer to their positive at a step of 0.1; all three over anchors that still move.
    effective_rank (RankMe, which counts every dimension with something in it), participation (directions that carry
        the variance, the large ones counting most), total_variance: of the first view's unit rows.
    embedding_norm: mean length of raw rows.
    gradient_norm: of the parameters' gradient, where the caller knows it.
    A brief measurement leaves out the anatomy: dissipation, with_gradient, hardest_weight, ratio, lemma1.
    """

    rows: int
    dimension: int
    objective: float = math.nan
    infonce: float = math.nan
    alignment: float = math.nan
    uniformity: float = math.nan
    positive_cosine: float = math.nan
    positive_spread: float = math.nan
    positive_absolute: float = math.nan
    negative_cosine: float = math.nan
    negative_spread: float = math.nan
    negative_absolute: float = math.nan
    gap: float = math.nan
    gap_10: float = math.nan
    gap_50: float = math.nan
    gap_90: float = math.nan
    hardest_gap: float = math.nan
    hardest_gap_10: float = math.nan
    hardest_gap_50: float = math.nan
    hardest_gap_90: float = math.nan
    dissipation: float = math.nan
    with_gradient: float = math.nan
    hardest_weight: float = math.nan
    ratio: float = math.nan
    lemma1: float = math.nan
    effective_rank: float = math.nan
    participation: float = math.nan
    total_variance: float = math.nan
    embedding_norm: float = math.nan
    gradient_norm: float = math.nan
    reasons: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, float]:
        """Everything but the reasons, flat, for a logger."""
        return {name: float(value) for name, value in asdict(self).items() if name != "reasons"}


@torch.no_grad()
def measure(
    objective: Callable[..., Any],
    z1: Tensor,
    z2: Tensor,
    *,
    labels: Tensor | None = None,
    infonce_temperature: float = 0.05,
    rows: int = 256,
    gradient_norm: float | None = None,
    brief: bool = False,
) -> Measurements:
    """Measures two views (N, D) of a batch, raw rows, on the first ``rows`` instances only: they are anchors and
    negatives of one another, so that the cost stays the same whatever the batch. ``brief`` leaves out the anatomy, most
    of the cost.

    Nothing is gathered from other processes, no gradient reaches the embeddings, and the objective is left as it is.

    >>> x = torch.eye(8)
    >>> found = measure(create_objective("mpt", margin=0.5), x, x)
    >>> found.objective, found.with_gradient, found.hardest_gap, round(found.gap, 4)
    (0.0, 0.0, 1.0, 1.4142)
    """
    if z1.ndim != 2 or z1.shape != z2.shape or len(z1) < 2:
        shapes = f"{tuple(z1.shape)} and {tuple(z2.shape)}"
        raise ValueError(f"measure needs two views of one shape (N, D) with at least two rows, not {shapes}")
    if rows < 2:
        raise ValueError(f"measure needs at least two rows, not rows={rows}")
    z1, z2 = (z[:rows].detach().to("cpu", torch.float32) for z in (z1, z2))
    labels = None if labels is None else labels[:rows].detach().cpu()
    found: dict[str, Any] = {"rows": len(z1), "dimension": z1.shape[1], "reasons": {}}
    found["embedding_norm"] = torch.linalg.vector_norm(z1, dim=1).mean().item()
    if gradient_norm is not None:
        found["gradient_norm"] = float(gradient_norm)
    if not (z1.isfinite().all() and z2.isfinite().all()):
        found["embedding_norm"] = math.inf
        found["reasons"]["all"] = "the embeddings hold NaN or Inf"
        return Measurements(**found)
    local = _alone(objective)
    found["objective"] = float(_value(local, z1, z2, labels))
    found["infonce"] = float(create_objective("infonce", temperature=infonce_temperature)(z1, z2))
    found["alignment"] = alignment(z1, z2)
    found["uniformity"] = (uniformity(z1) + uniformity(z2)) / 2
    found["effective_rank"], found["participation"] = effective_rank(z1), participation_ratio(z1)
    found["total_variance"] = total_variance(z1)
    found.update(_cosines(z1, z2))
    if brief:
        found["reasons"].update(dict.fromkeys(ANATOMY, "left out: a brief measurement"))
    else:
        found.update(_anatomy(local, z1, z2, labels, found["reasons"]))
    return Measurements(**found)


def _alone(objective: Callable[..., Any]) -> Callable[..., Any]:
    """A copy on the CPU that does not talk to other processes."""
    if not isinstance(objective, nn.Module):
        return objective
    local = copy.deepcopy(objective).cpu()
    if isinstance(local, Objective) and local.gather:
        local.gather = False
    return local


def _value(objective: Callable[..., Any], z1: Tensor, z2: Tensor, labels: Tensor | None) -> Tensor:
    value: Tensor = objective(z1, z2, labels) if isinstance(objective, Objective) else objective(z1, z2)
    return value.mean()


def _cosines(z1: Tensor, z2: Tensor) -> dict[str, float]:
    """Cosines and gaps of the cross-view pairs."""
    cosine = unit(z1) @ unit(z2).T
    size = len(cosine)
    own = torch.eye(size, dtype=torch.bool)
    positive, negative = cosine.diagonal(), cosine[~own].view(size, size - 1)
    distance = (2 - 2 * chordal(unit(z1), unit(z2))).clamp_min(0).sqrt()
    gap = distance[~own].view(size, size - 1).mean(dim=1) - distance.diagonal()
    hardest = positive - negative.amax(dim=1)
    found = {}
    for name, values in (("positive", positive), ("negative", negative)):
        found[f"{name}_cosine"] = values.mean().item()
        found[f"{name}_spread"] = values.std(correction=0).item()
        found[f"{name}_absolute"] = values.abs().mean().item()
    for name, values in (("gap", gap), ("hardest_gap", hardest)):
        found[name] = values.mean().item()
        for percent in (10, 50, 90):
            found[f"{name}_{percent}"] = torch.quantile(values, percent / 100).item()
    return found


def _anatomy(
    objective: Callable[..., Any], z1: Tensor, z2: Tensor, labels: Tensor | None, reasons: dict[str, str]
) -> dict[str, float]:
    """Dissipation, weight, ratio and Lemma 1; what has no meaning is left out and a reason given."""
    if getattr(objective, "name", "") == "cloa":
        objective = getattr(objective, "base", objective)
        reasons["anatomy"] = "of the base: the pull towards the anchors of the classes is not a matter of similarities"
    features = isinstance(objective, FeatureObjective)
    try:
        anatomy = dissect(objective, z1, z2, labels, most_anchors=1 if features else _SOME_ANCHORS)
    except (RuntimeError, ValueError) as problem:
        reasons["anatomy"] = f"the objective cannot be taken apart: {problem}"
        return {}
    found: dict[str, float] = {}
    dissipation = anatomy.dissipation[anatomy.dissipation.isfinite()]
    if features:
        reasons["dissipation"] = "the objective compares features: no anchor has a gate of its own"
    elif len(dissipation) == 0:
        reasons["dissipation"] = "no negative has any coefficient"
    elif dissipation.min() < -1e-6 or dissipation.max() > 1 + 1e-6:
        reasons["dissipation"] = "not between 0 and 1: the positive does not merely close a gate here"
    else:
        found["dissipation"] = dissipation.mean().item()
    moving = anatomy.moving
    known = "dissipation" in found
    found["with_gradient"] = ((dissipation >= DISSIPATED) if known else moving).double().mean().item()
    if moving.any():
        found.update(_of_the_moving(anatomy, moving))
    else:
        reasons["hardest_weight"] = reasons["ratio"] = reasons["lemma1"] = "no anchor receives any gradient"
    return found


def _of_the_moving(anatomy: Anatomy, moving: Tensor) -> dict[str, float]:
    share = anatomy.hardest_share[moving]
    weighed = {"hardest_weight": share[share.isfinite()].mean().item()} if share.isfinite().any() else {}
    chosen = moving & anatomy.ratio.isfinite()
    if not chosen.any():
        return weighed
    return {
        **weighed,
        "ratio": anatomy.ratio[chosen].median().item(),
        "lemma1": anatomy.lemma1(LEMMA_STEP)[chosen].double().mean().item(),
    }
