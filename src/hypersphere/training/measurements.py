"""Measurements of a run from two views of some batches: losses, geometry, and the anatomy of the objective."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.anatomy.dissect import dropped_pairs
from hypersphere.diagnostics import alignment, effective_rank, participation_ratio, total_variance, uniformity
from hypersphere.engine import Inputs
from hypersphere.objectives import Objective, create_objective
from hypersphere.training.anchors import ANATOMY, Anchors, Geometry, of_the_anchors, pool

Known = dict[str, Any]  # ids (N,) and guide (N, G), or one for each view, as an objective's call takes them
Views = tuple[Tensor, Tensor, Tensor | None] | tuple[Tensor, Tensor, Tensor | None, Known]


@dataclass(frozen=True)
class Measurements:
    """Numbers of one batch or several; NaN where a number has no meaning, with the cause in ``reasons``.

    Negatives are those of an anchor's own batch, without pairs that ids or a guide leave out; infonce and uniformity
    count these too. Of several batches, means and quantiles are over all their anchors or
    pairs, so that a shorter batch counts for less; ranks and variance are those of all rows together.

    objective: its value; infonce: at one temperature, so that runs with different objectives can be compared.
    alignment, uniformity: of Wang and Isola with α = t = 2, uniformity as the mean of both views.
    *_cosine, *_spread, *_absolute: mean, standard deviation, and mean of the absolute value of the cosines of positive
        pairs (h_i, h'_i) and negative pairs (h_i, h'_j), i ≠ j.
    *_angle, *_angle_spread: μ and σ of the angles of the same pairs, in radians (Li et al. 2024, Fig. 9).
    gap: d_ij of Nie et al. 2023, Fig. 3: mean distance to the negatives minus distance to the positive, Euclidean, mean
        over anchors and 10, 50, 90 % quantiles; hardest_gap: cosine of the positive minus that of the hardest negative.
    dissipation: mean GD_i; with_gradient: share of anchors whose GD_i is at least 0.01.
    hardest_weight: share of the hardest negative in the weight, mean; ratio: median of R_i; lemma1: share of anchors
        whose ratio brings them closer to their positive at a step of 0.1; all three over anchors that still move.
    effective_rank (RankMe, which counts every dimension with any variance), participation (directions that carry the
        variance, weighted towards the large ones), total_variance: of the first view's unit rows.
    embedding_norm: mean length of raw rows.
    gradient_norm: of the parameters' gradient, if the caller passes it.
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
    positive_angle: float = math.nan
    positive_angle_spread: float = math.nan
    negative_cosine: float = math.nan
    negative_spread: float = math.nan
    negative_absolute: float = math.nan
    negative_angle: float = math.nan
    negative_angle_spread: float = math.nan
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


def measure(
    objective: Callable[..., Any],
    z1: Tensor,
    z2: Tensor,
    *,
    labels: Tensor | None = None,
    ids: Tensor | None = None,
    guide: Tensor | tuple[Tensor, ...] | None = None,
    infonce_temperature: float = 0.05,
    rows: int = 256,
    gradient_norm: float | None = None,
    brief: bool = False,
) -> Measurements:
    """Measures two views (N, D) of a batch, raw rows, on the first ``rows`` instances only. These are anchors and
    negatives of one another, so the cost does not grow with the batch. Pairs that ``ids`` or a ``guide`` leave out are
    no negatives, as in the objective's call. ``brief`` leaves out the anatomy, which is most of the cost.

    Nothing is gathered from other processes, no gradient reaches the embeddings, and the objective is left as it is.

    >>> x = torch.eye(8)
    >>> measurements = measure(create_objective("mpt", margin=0.5), x, x)
    >>> measurements.objective, measurements.with_gradient, measurements.hardest_gap, round(measurements.gap, 4)
    (0.0, 0.0, 1.0, 1.4142)
    """
    known = {name: given for name, given in (("ids", ids), ("guide", guide)) if given is not None}
    return measure_batches(
        objective, [(z1, z2, labels, known)], infonce_temperature=infonce_temperature, rows=rows,
        gradient_norm=gradient_norm, brief=brief,
    )  # fmt: skip


@torch.no_grad()
def measure_batches(
    objective: Callable[..., Any],
    batches: Iterable[Views],
    *,
    infonce_temperature: float = 0.05,
    rows: int = 256,
    gradient_norm: float | None = None,
    brief: bool = False,
) -> Measurements:
    """``measure`` for several batches (z1, z2, labels) or (z1, z2, labels, {"ids": …, "guide": …}): an anchor has the
    negatives of its own batch, and counts once.

    >>> x = torch.eye(8)
    >>> measurements = measure_batches(create_objective("infonce"), [(x[:6], x[:6], None), (x[6:], x[6:], None)])
    >>> measurements.rows, round(measurements.negative_angle, 4), round(measurements.effective_rank, 4)
    (8, 1.5708, 8.0)
    """
    if rows < 2:
        raise ValueError(f"measure needs at least two rows, not rows={rows}")
    local = _alone(objective)
    infonce = create_objective("infonce", temperature=infonce_temperature)
    parts: list[_Part] = []
    fields: dict[str, Any] = {"reasons": {}}
    if gradient_norm is not None:
        fields["gradient_norm"] = float(gradient_norm)
    for given in batches:
        z1, z2, labels, known = _first_rows(rows, *given)
        if not (z1.isfinite().all() and z2.isfinite().all()):
            fields["reasons"] = {"all": "the embeddings hold NaN or Inf"}
            return Measurements(len(z1), z1.shape[1], **fields, embedding_norm=math.inf)
        parts.append(_part(local, infonce, z1, z2, labels, known, fields["reasons"], brief))
    if not parts:
        raise ValueError("measure needs at least one batch")
    fields.update(_losses(parts, getattr(local, "reduction", "mean") == "sum"))
    fields.update(pool([part.geometry for part in parts]))
    if brief:
        fields["reasons"].update(dict.fromkeys(ANATOMY, "left out: a brief measurement"))
    else:
        fields.update(of_the_anchors([part.anchors for part in parts if part.anchors is not None], fields["reasons"]))
    z1 = torch.cat([part.z1 for part in parts])
    fields["embedding_norm"] = torch.linalg.vector_norm(z1, dim=1).mean().item()
    fields["effective_rank"], fields["participation"] = effective_rank(z1), participation_ratio(z1)
    fields["total_variance"] = total_variance(z1)
    return Measurements(rows=len(z1), dimension=z1.shape[1], **fields)


@dataclass(frozen=True)
class _Part:
    """The contribution of one batch."""

    z1: Tensor
    objective: float
    infonce: float
    alignment: float
    uniformity: tuple[float, float]  # of each view
    geometry: Geometry
    anchors: Anchors | None  # None: not taken apart


def _first_rows(
    rows: int, z1: Tensor, z2: Tensor, labels: Tensor | None, known: Known | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Known]:
    if z1.ndim != 2 or z1.shape != z2.shape or len(z1) < 2:
        shapes = f"{tuple(z1.shape)} and {tuple(z2.shape)}"
        raise ValueError(f"measure needs two views of one shape (N, D) with at least two rows, not {shapes}")
    z1, z2 = (z[:rows].detach().to("cpu", torch.float32) for z in (z1, z2))
    first = {
        name: tuple(each[:rows].cpu() for each in given) if isinstance(given, tuple) else given[:rows].cpu()
        for name, given in (known or {}).items()
    }
    return z1, z2, None if labels is None else labels[:rows].detach().cpu(), first


def _part(
    objective: Callable[..., Any],
    infonce: Objective,
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None,
    known: Known,
    reasons: dict[str, str],
    brief: bool,
) -> _Part:
    dropped = dropped_pairs(objective, Inputs(z1, z2, **known))
    return _Part(
        z1,
        float(_value(objective, z1, z2, labels, known)),
        float(infonce(z1, z2)),
        alignment(z1, z2),
        (uniformity(z1), uniformity(z2)),
        Geometry.of(z1, z2, None if dropped is None else dropped[:, : len(z1)]),
        None if brief else Anchors.of(objective, z1, z2, labels, known, reasons),
    )


def _losses(parts: Sequence[_Part], summed: bool) -> dict[str, float]:
    """Means over all anchors. If the objective is a sum over anchors, the mean times the size of the first batch."""
    rows = torch.tensor([float(len(part.z1)) for part in parts], dtype=torch.float64)
    losses = {}
    for name in ("objective", "infonce", "alignment"):
        values = torch.tensor([getattr(part, name) for part in parts], dtype=torch.float64)
        weights = rows[:1].expand_as(rows) if summed and name == "objective" else rows
        losses[name] = float((weights * values).sum() / rows.sum())
    logs = torch.tensor([part.uniformity for part in parts], dtype=torch.float64)  # (batches, views)
    pairs = rows * (rows - 1)
    pooled = torch.logsumexp(logs + pairs.log().unsqueeze(1), dim=0) - pairs.sum().log()
    losses["uniformity"] = float(pooled.mean())
    return losses


def _alone(objective: Callable[..., Any]) -> Callable[..., Any]:
    """A copy on the CPU that does not communicate with other processes, in evaluation mode: the random directions of
    an objective are the same in every measurement."""
    if not isinstance(objective, nn.Module):
        return objective
    local = copy.deepcopy(objective).cpu()
    if isinstance(local, Objective):
        local.eval()
    if isinstance(local, Objective) and local.gather:
        local.gather = False
    return local


def _value(objective: Callable[..., Any], z1: Tensor, z2: Tensor, labels: Tensor | None, known: Known) -> Tensor:
    value: Tensor = objective(z1, z2, labels, **known) if isinstance(objective, Objective) else objective(z1, z2)
    return value.mean()
