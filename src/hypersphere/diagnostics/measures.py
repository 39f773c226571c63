"""One number for a set of embeddings: how aligned, how spread out, how many dimensions in use.

Rows come raw and are normalised here: on vectors of other lengths these numbers mean nothing. Nothing of size N × N is
ever kept; products are taken block by block, sums and spectra in float64. These functions have no gradient: to train on
one of them, use an objective (``align_uniform``, ``mhe``, ``vicreg``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from hypersphere.diagnostics.uniform import UniformCosine
from hypersphere.geometry import unit

TILE = 2048  # rows of a block: 2048² cosines are 16 MB in float32
SORTED_PAIRS = 1 << 22  # cosines that are kept and sorted for the Wasserstein distance, 32 MB; more are streamed
RANK_TOLERANCE = 1e-5  # eigenvalues of the covariance above this count, as in Koromilas et al.'s code


class Cosines(NamedTuple):
    """Cosines of the N positive pairs; mean and standard deviation of the cosines of the N(N-1) negative pairs."""

    positive: Tensor  # (N,)
    negative_mean: float
    negative_std: float


@torch.no_grad()
def alignment(z1: Tensor, z2: Tensor, alpha: float = 2) -> float:
    """mean_i ‖h_i - h'_i‖^α of two views' unit rows, from 0 (equal) to 2^α (Wang and Isola 2020).

    >>> alignment(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
    1.0
    """
    _same_shape(z1, z2)
    total = 0.0
    for one, other in zip(z1.split(TILE), z2.split(TILE), strict=True):
        total += float((unit(one) - unit(other)).norm(dim=1).double().pow(alpha).sum())
    return total / len(z1)


@torch.no_grad()
def uniformity(z: Tensor, t: float = 2) -> float:
    """log mean_{i<j} e^{-t‖h_i - h_j‖²} over distinct pairs of unit rows, from -4t to 0 (Wang and Isola 2020).

    All N(N-1)/2 pairs, in blocks. For two views, take the mean of both values, as every published table does.

    >>> round(uniformity(torch.eye(4)), 6)
    -4.0
    """
    _some_rows(z)
    h = unit(z)
    parts = [torch.logsumexp(2 * t * (cosines.double() - 1), dim=0) for cosines in distinct_pairs(h, chordal)]
    return float(torch.logsumexp(torch.stack(parts), dim=0)) - math.log(len(h) * (len(h) - 1) / 2)


@torch.no_grad()
def wasserstein_uniformity(z: Tensor) -> float:
    """1-Wasserstein distance between the cosines of distinct pairs and those of uniform points: 0 when they are alike,
    1 when all rows are one (Koromilas et al. 2024). All N(N-1)/2 pairs, in blocks; beyond 2,896 rows to about 1e-9.

    >>> round(wasserstein_uniformity(torch.ones(4, 3)), 6)
    1.0
    """
    _some_rows(z)
    uniform, parts = UniformCosine(z.shape[1]), distinct_pairs(unit(z))
    if len(z) * (len(z) - 1) // 2 <= SORTED_PAIRS:
        return uniform.wasserstein(torch.cat(list(parts)).cpu())
    return uniform.wasserstein_streamed(parts)


@torch.no_grad()
def cosines(z1: Tensor, z2: Tensor) -> Cosines:
    """Cosines between two views: of each row with its positive, and mean and spread of those with the other rows.

    The second moment of the negatives needs no pairs: Σ_ij s_ij² is the inner product of HᵀH and H'ᵀH'.

    >>> positive, mean, std = cosines(torch.eye(2), torch.eye(2))
    >>> positive.tolist(), mean, std
    ([1.0, 1.0], 0.0, 0.0)
    """
    _same_shape(z1, z2)
    _some_rows(z1)
    one, other = unit(z1), unit(z2)
    positive = (one * other).sum(dim=1)
    pairs = len(one) * (len(one) - 1)
    own = positive.double()
    total = float(_sum(one) @ _sum(other)) - float(own.sum())
    squares = _sum_of_squares(one, other) - float((own**2).sum())
    mean = total / pairs
    return Cosines(positive, mean, math.sqrt(max(0.0, squares / pairs - mean**2)))


def singular_values(z: Tensor, centre: bool = False) -> Tensor:
    """Singular values of the unit rows (of their deviations from the mean, with ``centre``), largest first, float64.

    Roots of the eigenvalues of the smaller of HᵀH and HHᵀ; those below 1e-8 of the largest are noise.

    >>> singular_values(torch.tensor([[3.0, 0.0], [5.0, 0.0], [0.0, 1.0]])).tolist()
    [1.4142, 1.0]
    """
    return spectrum(z, centre).sqrt()


def effective_rank(z: Tensor, centre: bool = False) -> float:
    """RankMe: the exponential of the entropy of σ_k / Σσ, from 1 to min(N, D) (Roy and Vetterli 2007, Garrido 2023).

    σ are the singular values of the unit rows, not centred, as in the paper (which leaves rows as they are).

    >>> round(effective_rank(torch.eye(5)), 6)
    5.0
    """
    return entropy_rank(singular_values(z, centre))


def participation_ratio(z: Tensor) -> float:
    """(Σλ)² / Σλ² over the eigenvalues λ of the unit rows' covariance: dimensions in use, large ones counting most.

    >>> round(participation_ratio(torch.cat([torch.eye(3), -torch.eye(3)])), 6)
    3.0
    """
    return participation(spectrum(z, centre=True))


@torch.no_grad()
def total_variance(z: Tensor) -> float:
    """Sum over the dimensions of the unit rows' variance, 1 - ‖mean‖²: 0 when all rows are one, 1 when balanced.

    >>> total_variance(torch.cat([torch.eye(3), -torch.eye(3)]))
    1.0
    """
    return max(0.0, sum(float(unit(part).double().pow(2).sum()) for part in z.split(TILE)) / len(z)
               - float((_sum(unit(z)) / len(z)).pow(2).sum()))  # fmt: skip


def entropy_rank(singular: Tensor) -> float:
    """exp(-Σ p log p) with p = σ/Σσ; 1 for an empty spectrum, where nothing spreads."""
    total = float(singular.sum())
    if total == 0:
        return 1.0
    share = singular / total
    return math.exp(-float(torch.special.xlogy(share, share).sum()))


def participation(eigenvalues: Tensor) -> float:
    """(Σλ)² / Σλ²; 1 for an empty spectrum."""
    squares = float((eigenvalues**2).sum())
    return float(eigenvalues.sum()) ** 2 / squares if squares > 0 else 1.0


def leading_directions(eigenvalues: Tensor, share: float) -> int:
    """How many of the largest eigenvalues together hold ``share`` of the sum; 1 for an empty spectrum.

    >>> leading_directions(torch.tensor([5.0, 3.0, 1.0, 1.0]), 0.75)
    2
    """
    held = eigenvalues.cumsum(0)
    return 1 + int((held < share * held[-1]).sum())


@torch.no_grad()
def spectrum(z: Tensor, centre: bool = False) -> Tensor:
    """Eigenvalues of HᵀH (of its centred form), the min(N, D) that can differ from 0, largest first, float64."""
    if len(z) == 0:
        raise ValueError("there are no rows to take a spectrum of")
    h = unit(z)
    mean = _sum(h) / len(h) if centre else torch.zeros(h.shape[1], dtype=torch.float64, device=h.device)
    if len(h) <= h.shape[1]:
        deviations = h.double() - mean
        square = deviations @ deviations.T
    else:
        square = second_moment(h) - len(h) * torch.outer(mean, mean)
    return without_noise(torch.linalg.eigvalsh(square), len(h), scale=len(h))


def without_noise(eigenvalues: Tensor, rows: int, scale: float) -> Tensor:
    """Eigenvalues of a moment of that many rows, largest first, 0 where they are rounding errors of ``scale``."""
    least = 16 * max(len(eigenvalues), math.sqrt(rows)) * torch.finfo(torch.float64).eps * scale
    return torch.where(eigenvalues > least, eigenvalues, 0).flip(0)


def second_moment(h: Tensor) -> Tensor:
    """HᵀH in float64 (D, D), block by block."""
    moment = torch.zeros(h.shape[1], h.shape[1], dtype=torch.float64, device=h.device)
    for part in h.split(TILE):
        block = part.double()
        moment.addmm_(block.T, block)
    return moment


def products(one: Tensor, other: Tensor) -> Tensor:
    """(N, M) cosines of unit rows."""
    return one @ other.T


def chordal(one: Tensor, other: Tensor) -> Tensor:
    """(N, M) cosines c of unit rows. A zero row has c = ½, two have c = 1, so that 2 - 2c is the squared distance."""
    cosines = products(one, other)
    for rows, dim in ((one, 1), (other, 0)):
        zero = (rows == 0).all(dim=1)
        if bool(zero.any()):
            cosines += 0.5 * zero.to(cosines.dtype).unsqueeze(dim)
    return cosines


def distinct_pairs(h: Tensor, compare: Callable[[Tensor, Tensor], Tensor] = products) -> Iterator[Tensor]:
    """Cosines of all pairs i < j of unit rows, as one flat tensor for each pair of blocks."""
    blocks = h.split(TILE)
    for place, rows in enumerate(blocks):
        inside = compare(rows, rows)
        above = torch.ones_like(inside, dtype=torch.bool).triu(1)
        if len(rows) > 1:
            yield inside[above]
        for columns in blocks[place + 1 :]:
            yield compare(rows, columns).flatten()


def _sum_of_squares(one: Tensor, other: Tensor) -> float:
    """Σ_ij s_ij² over all N² pairs, computed from the smaller of the two products."""
    if len(one) > one.shape[1]:
        return float((second_moment(one) * second_moment(other)).sum())
    return sum(float((part.double() @ other.double().T).pow(2).sum()) for part in one.split(TILE))


def _sum(h: Tensor) -> Tensor:
    return h.sum(dim=0, dtype=torch.float64)


def _same_shape(z1: Tensor, z2: Tensor) -> None:
    if z1.ndim != 2 or z1.shape != z2.shape:
        raise ValueError(f"two views need one shape (N, D), not {tuple(z1.shape)} and {tuple(z2.shape)}")


def _some_rows(z: Tensor) -> None:
    if z.ndim != 2 or len(z) < 2:
        raise ValueError(f"pairs need an array of at least two rows (N, D), not one of shape {tuple(z.shape)}")
