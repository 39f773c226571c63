"""Measures that need pairs of rows, on a sample that is small enough to compare all rows with all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.diagnostics.measures import chordal, distinct_pairs
from hypersphere.diagnostics.uniform import riesz_energy_of_uniform
from hypersphere.geometry import chord

ROWS = 512  # anchors compared with the sample at once
NEAREST_DISTANCE = 1e-6  # a pair closer than this counts as this far apart: 1/0 has no mean
BINS = 200  # of a histogram of cosines over [-1, 1]


@dataclass(frozen=True)
class Neighbours:
    """Each row's k nearest neighbours: indices (S, k), the cosine of the nearest (S,), occurrences of each row (S,).

    Rows at equal distance share the last places: copies are no hubs.
    """

    indices: Tensor
    nearest: Tensor
    occurrences: Tensor

    @property
    def skewness(self) -> float:
        """Third standardised moment of the occurrences: 0 when all rows are neighbours equally often, large with hubs.

        Radovanović et al. 2010, Eq. 1.
        """
        centred = self.occurrences.double() - self.occurrences.double().mean()
        deviation = float(centred.square().mean().sqrt())
        return float((centred**3).mean()) / deviation**3 if deviation > 0 else 0.0


def neighbours(h: Tensor, k: int) -> Neighbours:
    """The ``k`` nearest of the other unit rows, exactly."""
    k = min(k, len(h) - 1)
    indices, nearest = [], []
    occurrences = torch.zeros(len(h), dtype=torch.float64)
    for rows in torch.arange(len(h)).split(ROWS):
        cosines = h[rows] @ h.T
        cosines[torch.arange(len(rows)), rows] = -math.inf
        best = cosines.topk(k, dim=1)
        indices.append(best.indices)
        nearest.append(best.values[:, 0])
        last, rounding = best.values[:, -1:], 16 * torch.finfo(h.dtype).eps
        above, reached = cosines > last + rounding, cosines >= last - rounding
        before, tied = above.sum(dim=1), (reached & ~above).double()
        occurrences += above.sum(dim=0) + ((k - before) / tied.sum(dim=1)) @ tied
    return Neighbours(torch.cat(indices), torch.cat(nearest), occurrences)


@dataclass(frozen=True)
class Gap:
    """How much nearer a row's positive is than the other rows of the second view.

    distance: mean over anchors of (mean negative distance - positive distance), d_ij of Nie et al. 2023, Fig. 3;
    hardest: the same with the nearest negative; first: share of anchors whose positive is nearer than all negatives;
    closer: chance that a positive is nearer than a random negative (ties count half).
    """

    distance: float
    hardest: float
    first: float
    closer: float
    negative_histogram: Tensor


def gap(h: Tensor, other: Tensor) -> Gap:
    """Positives (h_i, h'_i) against negatives (h_i, h'_j), j ≠ i."""
    size = len(h)
    distance = hardest = first = closer = 0.0
    histogram = torch.zeros(BINS, dtype=torch.float64)
    for rows in torch.arange(size).split(ROWS):
        cosines = h[rows] @ other.T
        own = torch.zeros_like(cosines, dtype=torch.bool)
        own[torch.arange(len(rows)), rows] = True
        positive = cosines[own]
        negative = cosines[~own].view(len(rows), size - 1)
        distances = _distance(chordal(h[rows], other))
        near, far = distances[own], distances[~own].view(len(rows), size - 1)
        distance += float((far.mean(dim=1) - near).sum())
        hardest += float((far.amin(dim=1) - near).sum())
        best = negative.amax(dim=1)
        first += float((positive > best).sum())
        level = positive.unsqueeze(1)
        closer += float(((negative < level).double() + 0.5 * (negative == level)).mean(dim=1).sum())
        histogram += cosine_histogram(negative)
    return Gap(distance / size, hardest / size, first / size, closer / size, histogram)


@dataclass(frozen=True)
class Classes:
    """Rows of one class against rows of different classes, in Euclidean distance on the sphere."""

    classes: int
    labelled: int  # rows of the sample with a label
    within: float
    between: float
    agreement: float  # nearest neighbours of the row's class, as a share of the largest possible number
    chance: float  # the same for neighbours drawn at random

    @property
    def gap(self) -> float:
        return self.between - self.within

    @property
    def beyond_chance(self) -> float:
        """0: neighbours share the class no more often than any two rows; 1: always. NaN where chance is 1."""
        return (self.agreement - self.chance) / (1 - self.chance) if self.chance < 1 else math.nan


def classes(h: Tensor, labels: Tensor, near: Neighbours) -> Classes:
    """Mean distances within and between classes, and whether neighbours share a class; label -1: no label."""
    total = {True: 0.0, False: 0.0}
    pairs = {True: 0, False: 0}
    for rows in torch.arange(len(h)).split(ROWS):
        distances = _distance(chordal(h[rows], h))
        counts = (labels[rows].unsqueeze(1) >= 0) & (labels >= 0)
        counts[torch.arange(len(rows)), rows] = False
        same = labels[rows].unsqueeze(1) == labels
        for kind in (True, False):
            chosen = counts & (same == kind)
            total[kind] += float(distances[chosen].sum())
            pairs[kind] += int(chosen.sum())
    labelled = int((labels >= 0).sum())
    beside = labels[near.indices]
    seen = (beside >= 0).sum(dim=1)
    _, place, count = labels.unique(return_inverse=True, return_counts=True)
    partners = count[place] - 1
    possible = torch.where(labels >= 0, torch.minimum(seen, partners), 0)
    judged = possible > 0
    agree = float((beside == labels.unsqueeze(1)).sum(dim=1)[judged].sum())
    drawn = float((seen * partners)[judged].sum()) / max(1, labelled - 1)
    all_possible = float(possible.sum()) or math.nan
    return Classes(
        classes=len(labels[labels >= 0].unique()),
        labelled=labelled,
        within=total[True] / pairs[True] if pairs[True] else math.nan,
        between=total[False] / pairs[False] if pairs[False] else math.nan,
        agreement=agree / all_possible,
        chance=drawn / all_possible,
    )


def riesz_energy(h: Tensor) -> float:
    """Hyperspherical energy: mean of 1/‖h_i - h_j‖ over distinct pairs (Liu et al. 2018, s = 1).

    >>> round(riesz_energy(torch.eye(3)), 6)
    0.707107
    """
    total, pairs = 0.0, len(h) * (len(h) - 1) / 2
    for cosines in distinct_pairs(h, chordal):
        total += float(_distance(cosines).clamp_min(NEAREST_DISTANCE).reciprocal().sum())
    return total / pairs


def least_energy(count: int, dim: int) -> tuple[float, str]:
    """The smallest hyperspherical energy ``count`` rows can have where it is known, else that of the uniform measure.

    The simplex and the cross-polytope minimise every completely monotone energy (Cohn and Kumar 2007), as does the
    regular polygon on the circle. More points than these approach the uniform measure's energy from below.
    """
    if count <= dim + 1:  # all pairs at cosine -1/(count-1)
        return 1 / math.sqrt(2 + 2 / (count - 1)), "regular simplex"
    if count == 2 * dim:  # one antipode, the others orthogonal
        return (1 / 2 + (count - 2) / math.sqrt(2)) / (count - 1), "cross-polytope"
    if dim == 2:
        return sum(0.5 / math.sin(math.pi * k / count) for k in range(1, count)) / (count - 1), "regular polygon"
    return riesz_energy_of_uniform(dim), "uniform measure"


def cosine_histogram(cosines: Tensor) -> Tensor:
    """(BINS,) how many cosines fall into each of the equal bins of [-1, 1]."""
    return torch.histc(cosines.float().clamp(-1, 1), bins=BINS, min=-1, max=1).double()


def _distance(cosines: Tensor) -> Tensor:
    return chord(cosines.double().clamp(-1, 1), smallest=0.0)
