"""The check-up: one pass over all rows, and all pairs of a sample."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.diagnostics.diagnosis import Diagnosis, Lengths, Pairs, Sampling, View
from hypersphere.diagnostics.measures import (
    RANK_TOLERANCE,
    distinct_pairs,
    entropy_rank,
    leading_directions,
    participation,
    uniformity,
)
from hypersphere.diagnostics.moments import Moments, size
from hypersphere.diagnostics.notable import SAME, Notable, notable_rows
from hypersphere.diagnostics.pairs import (
    BINS,
    Neighbours,
    classes,
    cosine_histogram,
    gap,
    least_energy,
    neighbours,
    riesz_energy,
)
from hypersphere.diagnostics.rows import Rows
from hypersphere.diagnostics.uniform import UniformCosine
from hypersphere.diagnostics.verdict import findings
from hypersphere.geometry import unit

T = 2.0  # of uniformity, as in every published table
NEIGHBOURS = 10  # k of the k-occurrence, as in Radovanović et al. 2010
MOST = 0.75  # share of the variance that the leading directions are counted for
DEAD = 1e-5  # a dimension whose spread is this small relative to the size of the entries does not vary
WASSERSTEIN_ROWS = 2048  # two million cosines to sort; more rows hardly move the distance
Progress = Callable[[int, int], None]


@torch.no_grad()
def diagnose(
    z1: Any,
    z2: Any = None,
    labels: Any = None,
    *,
    texts: Sequence[str] | None = None,
    sample: int = 4096,
    seed: int = 0,
    progress: Progress | None = None,
) -> Diagnosis:
    """Health of embeddings (N, D), alone or with a second view whose row i is the positive of row i.

    Tensors, numpy arrays or mapped files; rows come raw and are normalised here. All rows are read once, a block at a
    time: memory grows with D², time with N. Measures on pairs use all pairs of ``sample`` rows drawn with ``seed``, and
    are exact when there are no more rows than that. The Wasserstein distance uses at most 2,048 of these, drawn in the
    same way. ``labels`` (N,): classes, -1 for none. ``texts``: entry i is the text that row i embeds; the texts then
    name hubs and copies.
    ``progress(done, total)`` is called after every block of rows.

    >>> from hypersphere.geometry import uniform_points
    >>> diagnosis = diagnose(uniform_points(500, 16))
    >>> diagnosis.collapsed, diagnosis.verdict
    (False, 'healthy')
    >>> print(round(diagnosis.uniformity, 1), round(diagnosis.views[0].participation_ratio))
    -3.5 16
    """
    rows = [Rows(z1, "z1")] + ([] if z2 is None else [Rows(z2, "z2")])
    if z2 is not None and rows[0].shape != rows[1].shape:
        raise ValueError(f"two views need one shape, row i of z2 beside row i of z1, not {rows[0].shape} and "
                         f"{rows[1].shape}")  # fmt: skip
    if sample < 2:
        raise ValueError(f"a sample of rows to compare needs at least 2, not {sample}")
    count, dims = len(rows[0]), rows[0].dims
    marks = None if labels is None else _labels(labels, count)
    if texts is not None and len(texts) != count:
        raise ValueError(f"texts must be one for each of the {count:,} rows, not {len(texts):,}")
    moments, positives = _read(rows, progress)
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:sample]
    if sample >= count:
        drawn = torch.arange(count)
    small = [unit(each.take(drawn).cpu().double()) for each in rows]
    near = [neighbours(h, NEIGHBOURS) for h in small]
    few = torch.arange(len(drawn))
    if len(few) > WASSERSTEIN_ROWS:  # drawn as well: in a file sorted by class the first rows are of one class
        few = torch.randperm(len(few), generator=torch.Generator().manual_seed(seed))[:WASSERSTEIN_ROWS]
    named = [notable_rows(*parts, drawn, texts) for parts in zip(moments, near, strict=True)]
    views = tuple(_view(*parts, few) for parts in zip(rows, moments, small, near, named, strict=True))
    diagnosis = Diagnosis(
        rows=count,
        dims=dims,
        views=views,
        pairs=None if positives is None else _pairs(moments, positives, small),
        classes=None if marks is None else classes(small[0], marks[drawn], near[0]),
        sampling=Sampling(count, len(drawn), len(few), seed, min(NEIGHBOURS, len(drawn) - 1)),
    )
    return dataclasses.replace(diagnosis, findings=findings(diagnosis))


class _Positives:
    """Sums over the positive pairs and, where D² is smaller than N², over all cross pairs."""

    def __init__(self) -> None:
        self.distance = self.cosine = self.square = 0.0
        self.histogram = torch.zeros(BINS, dtype=torch.float64)

    def add(self, one: Tensor, other: Tensor) -> None:
        self.distance += float((one - other).double().square().sum())
        cosines = (one.double() * other.double()).sum(dim=1)
        self.cosine += float(cosines.sum())
        self.square += float(cosines.square().sum())
        self.histogram += cosine_histogram(cosines)


def _read(rows: list[Rows], progress: Progress | None) -> tuple[list[Moments], _Positives | None]:
    moments = [Moments(each) for each in rows]
    positives = _Positives() if len(rows) == 2 else None
    for blocks in zip(*(each.blocks() for each in rows), strict=True):
        units = [each.add(block) for each, block in zip(moments, blocks, strict=True)]
        if positives is not None:
            positives.add(*units)
        if progress is not None:
            progress(moments[0].count, len(rows[0]))
    return moments, positives


def _view(rows: Rows, moments: Moments, h: Tensor, near: Neighbours, named: list[Notable], few: Tensor) -> View:
    count, dims = len(rows), rows.dims
    eigenvalues, raw = moments.eigenvalues(centre=True), moments.eigenvalues(centre=False)
    lengths = moments.lengths
    uniform = UniformCosine(dims)
    cosines = torch.cat(list(distinct_pairs(h[few])))
    least, least_of = least_energy(count, dims)
    histogram = torch.stack([cosine_histogram(part) for part in distinct_pairs(h)]).sum(dim=0)
    return View(
        name=rows.name,
        lengths=_lengths(lengths),
        zero_rows=int((lengths == 0).sum()),
        repeated_rows=moments.repeated,
        near_duplicates=float((near.nearest > SAME).double().mean()),
        dead_dimensions=(moments.raw_variance.sqrt() <= DEAD * moments.raw_size).nonzero().flatten().tolist(),
        uniformity=uniformity(h, T),
        uniformity_of_uniform=math.log(uniform.mean(lambda cosine: torch.exp(-2 * T * (1 - cosine)))),
        wasserstein=uniform.wasserstein(cosines),
        energy=riesz_energy(h),
        least_energy=least,
        least_energy_of=least_of,
        anisotropy=float((moments.sum.square().sum() - moments.squares.sum()) / (count * (count - 1))),
        first_direction=float(raw[0] / raw.sum()) if float(raw.sum()) > 0 else math.nan,
        total_variance=float(moments.variance.sum()),
        rank=int((eigenvalues > RANK_TOLERANCE).sum()),
        effective_rank=entropy_rank(raw.sqrt()),
        effective_rank_centred=entropy_rank(eigenvalues.sqrt()),
        participation_ratio=participation(eigenvalues),
        leading_directions=leading_directions(eigenvalues, MOST),
        hubness=near.skewness,
        never_neighbours=float((near.occurrences == 0).double().mean()),
        notable=named,
        variance=moments.variance,
        singular_values=(raw * count).sqrt(),
        eigenvalues=eigenvalues,
        occurrences=near.occurrences,
        histogram=histogram,
    )


def _lengths(lengths: Tensor) -> Lengths:
    scale = size(lengths)
    scaled = lengths / scale
    return Lengths(*(scale * float(each) for each in (scaled.mean(), scaled.std(), scaled.min(), scaled.max())))


def _pairs(moments: list[Moments], positives: _Positives, small: list[Tensor]) -> Pairs:
    one, other = moments
    count = one.count
    negatives = count * (count - 1)
    mean = (float(one.sum @ other.sum) - positives.cosine) / negatives
    if one.second is not None and other.second is not None:  # Σ_ij s_ij² needs no pairs
        every = float((one.second * other.second).sum())
    else:
        left, right = (unit(each.rows.take(torch.arange(count)).cpu()).double() for each in moments)
        every = float((left @ right.T).square().sum())
    square = (every - positives.square) / negatives
    mean_positive = positives.cosine / count
    between = gap(*small)
    return Pairs(
        alignment=positives.distance / count,
        positive_cosine=mean_positive,
        positive_std=math.sqrt(max(0.0, positives.square / count - mean_positive**2)),
        negative_cosine=mean,
        negative_std=math.sqrt(max(0.0, square - mean**2)),
        distance_gap=between.distance,
        hardest_gap=between.hardest,
        found_first=between.first,
        closer_than_random=between.closer,
        apart=float((one.mean - other.mean).norm()),
        positive_histogram=positives.histogram,
        negative_histogram=between.negative_histogram,
    )


def _labels(labels: Any, count: int) -> Tensor:
    """(N,) class indices from class names of any type; -1 stays -1."""
    plain = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if plain.shape != (count,):
        raise ValueError(f"labels must be one for each of the {count} rows, not of shape {plain.shape}")
    if plain.dtype.kind == "f" and not np.isfinite(plain).all():
        raise ValueError("labels hold NaN or Inf; an unlabelled row has -1")
    if plain.dtype.kind == "f" and not np.array_equal(plain, np.round(plain)):
        raise ValueError("labels name classes (whole numbers or words); these are fractions")
    inverse = np.unique(plain, return_inverse=True)[1]
    numbers = torch.from_numpy(inverse.reshape(-1).astype(np.int64))
    if plain.dtype.kind in "if":
        if (plain < -1).any():
            raise ValueError(f"labels hold {int(plain.min())}; classes are numbered from 0, and -1 stands for no label")
        numbers[torch.from_numpy(np.ascontiguousarray(plain == -1))] = -1
    known = numbers[numbers >= 0]
    if len(known.unique()) < 2 or len(known) == len(known.unique()):
        raise ValueError(f"labels must put the rows into at least two classes, one with two rows, not {len(known)} "
                         f"labelled rows into {len(known.unique())}")  # fmt: skip
    return numbers
