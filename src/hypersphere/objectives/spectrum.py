"""Objectives of the spectrum of the features: Wasserstein distance to a Gaussian, MMCR and FroSSL."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.geometry import unit
from hypersphere.objectives.base import FeatureObjective
from hypersphere.objectives.prediction import distance_to_centre
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import number
from hypersphere.torch_internals import plain_operations


@register("wasserstein")
class Wasserstein(FeatureObjective):
    """2-Wasserstein distance of the unit rows, as a Gaussian, to N(0, I/D); a regulariser that aligns nothing.

    L = sqrt(‖μ‖² + 1 + tr Σ - (2/√D) tr Σ^{1/2}), μ and Σ the mean and the biased covariance of the M rows of all
    views; for unit rows sqrt(2 - (2/√(DM)) ‖H-μ‖_*) with the nuclear norm, which is what is computed.

    Source: Fang et al. 2024.
    Use it beside an objective that aligns, to prevent dimensional collapse. The authors add it to BYOL with weight 0.2
    and to MoCo v2 with weight 1.
    Relations: ``mmcr`` has the nuclear norm without centring. It is √2 if all rows are equal, and 0 if and only if
    μ = 0 and Σ = I/D. Directions without variance receive no gradient; the authors' form divides by zero there.

    >>> h = torch.cat([torch.eye(3), -torch.eye(3)])
    >>> Wasserstein()(h, h).item() < 1e-3, round(Wasserstein()(h[:1].expand(4, 3), h[:1].expand(4, 3)).item(), 4)
    (True, 1.4142)
    """

    source = "Fang et al. 2024"
    raw_rows: ClassVar[Any] = False
    takes: ClassVar[frozenset[str]] = frozenset({"views"})

    def features(self, *views: Tensor) -> Statistics:
        rows = unit(torch.cat(views))
        size, dim = rows.shape
        squares = rows.detach().any(dim=1).to(rows.dtype).mean()  # ‖μ‖² + tr Σ: each row adds 1, a zero row 0
        nuclear = nuclear_norm(rows - rows.mean(dim=0), math.sqrt(size))
        squared = squares + 1 - 2 / math.sqrt(dim * size) * nuclear
        distance = torch.where(squared > 1e-24, squared, 1e-24).sqrt()
        return {"loss": distance, "distance": distance}


@register("mmcr")
class MMCR(FeatureObjective):
    """Maximum manifold capacity: the centres of the instances should spread over all dimensions.

    L = -‖C‖_* + (λ/N) Σ_n ‖Z_n‖_*, λ = ``weight``; C (N, D) the mean of the views' unit rows, not scaled to length 1
    again, Z_n (V, D) the unit rows of instance n, ‖·‖_* the sum of singular values.

    Source: Yerxa et al. 2023.
    Use it with many views and no negatives; its only setting is 0 in most of the authors' runs.
    Relations: with two views ‖Z_n‖_* = √(1+c_n) + √(1-c_n). Its smallest value is -√(N min(N, D)), equal rows have
    -√N. lightly does not scale rows to length 1, and has λ = 5e-3. ``wasserstein`` centres the rows.

    >>> x = torch.eye(4)
    >>> round(MMCR()(x, x).item(), 6)
    -4.0
    """

    source = "Yerxa et al. 2023"
    raw_rows: ClassVar[Any] = False
    takes: ClassVar[frozenset[str]] = frozenset({"views"})
    weight: float = number(default=0.0, at_least=0)

    def features(self, *views: Tensor) -> Statistics:
        rows = [unit(z) for z in views]
        capacity = -nuclear_norm(sum(rows[1:], rows[0]) / len(rows))
        spread = self.weight * _of_instances(rows).mean() if self.weight else 0 * capacity
        return {"loss": capacity + spread, "capacity": capacity, "spread": spread}


def _of_instances(rows: list[Tensor]) -> Tensor:
    """Nuclear norms (N,) of the unit rows of each instance; zero rows do not count."""
    if len(rows) > 2:
        return nuclear_norm(torch.stack(rows, dim=1))
    x, y = rows
    norms = [torch.linalg.vector_norm(each, dim=1) for each in (x + y, x - y)]  # √(2+2c), √(2-2c)
    return torch.where(x.any(dim=1) & y.any(dim=1), (norms[0] + norms[1]) / math.sqrt(2), norms[0])


@register("frossl")
class FroSSL(FeatureObjective):
    """Views close to their mean, and features whose covariance has equal eigenvalues.

    L = Σ_v ( log ‖C_v‖_F² + w V D mean (Z_v-Z̄)² ), C_v = Z_vᵀZ_v/D, w = ``weight``; Z_v are the raw rows of view v with
    every column scaled to length 1, Z̄ the mean of the V views.

    Source: Skean et al. 2024, as in their code for several views.
    Use it without negatives where ``barlow`` or ``vicreg`` learn slowly; costs N·D·min(N, D).
    Relations: ‖C‖_F² is the collision probability of the spectrum, so its logarithm is a negative Rényi entropy,
    between -log min(N, D) and 0 (collapsed). The length of a feature over the batch does not matter.

    >>> x = torch.eye(4)
    >>> round(FroSSL()(x, x).item() / 2, 4)
    -1.3863
    """

    source = "Skean et al. 2024"
    takes: ClassVar[frozenset[str]] = frozenset({"views"})
    weight: float = number(default=1.0, at_least=0, tune=(0.1, 10.0))

    def features(self, *views: Tensor) -> Statistics:
        columns = [unit(z.T).T for z in views]  # a zero column stays zero
        num_views = len(views)
        alignment = self.weight * num_views**2 * views[0].shape[1] * distance_to_centre(columns, num_views)
        entropy = torch.stack([_log_purity(z) for z in columns]).sum()
        return {"loss": alignment + entropy, "alignment": alignment, "entropy": entropy}


def _log_purity(z: Tensor) -> Tensor:
    """log ‖ZᵀZ/D‖_F²; 0 for zero features."""
    squares = (_squared_gram(z) if plain_operations() else _SquaredGram.apply(z)) / z.shape[1] ** 2  # type: ignore[no-untyped-call]
    return torch.where(squares > 0, squares, 1).log()


def _gram(z: Tensor) -> Tensor:
    """The smaller of ZᵀZ and ZZᵀ, which have the same length."""
    return z.T @ z if len(z) >= z.shape[1] else z @ z.T


def _squared_gram(z: Tensor) -> Tensor:
    return _gram(z).square().sum()


class _SquaredGram(torch.autograd.Function):
    """‖ZᵀZ‖_F², whose gradient 4 ZZᵀZ takes one product; autograd takes two."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        gram = _gram(z)
        ctx.save_for_backward(z, gram)
        return gram.square().sum()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        z, gram = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated
            gram = _gram(z)
        moved: Tensor = z @ gram if len(z) >= z.shape[1] else gram @ z
        return 4 * upstream * moved


def nuclear_norm(matrix: Tensor, size: float | None = None) -> Tensor:
    """The sum of singular values of (…, N, D); its gradient is UVᵀ of those above rounding, relative to ``size``.

    size: a length of which the entries are rounded parts; None: that of the matrix.
    """
    if plain_operations():
        return _plain(matrix, size)
    norm: Tensor = _NuclearNorm.apply(matrix, size)  # type: ignore[no-untyped-call]
    return norm


def _rounding(matrix: Tensor, size: float | None) -> Tensor | float:
    """Singular values up to this one (…, 1) count as 0."""
    length: Tensor | float = torch.linalg.matrix_norm(matrix.detach()).unsqueeze(-1) if size is None else size
    return 8 * torch.finfo(matrix.dtype).eps * length


def _plain(matrix: Tensor, size: float | None) -> Tensor:
    """The same in torch's own operations, which can be differentiated again where singular values differ."""
    values = torch.linalg.svdvals(matrix)
    return torch.where(values > _rounding(matrix, size), values, 0).sum(dim=-1)


class _NuclearNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, size: float | None) -> Tensor:
        values, grad = _values_and_polar(matrix, _rounding(matrix, size))
        ctx.save_for_backward(matrix, grad)
        ctx.size = size
        return values.sum(dim=-1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        matrix, grad = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated
            (grad,) = torch.autograd.grad(_plain(matrix, ctx.size).sum(), matrix, create_graph=True)
        return upstream[..., None, None] * grad, None


def _values_and_polar(matrix: Tensor, rounding: Tensor | float) -> tuple[Tensor, Tensor]:
    """The singular values above ``rounding`` (the others are 0), and UVᵀ of these."""
    if matrix.dtype == torch.float64:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        counts = values > rounding
        return torch.where(counts, values, 0), (left * counts.unsqueeze(-2)) @ right
    # In float64 the eigenvalues of the smaller Gram matrix keep all digits of float32, in half the time.
    wide, is_tall = matrix.double(), matrix.shape[-2] >= matrix.shape[-1]
    squares, vectors = torch.linalg.eigh(wide.mT @ wide if is_tall else wide @ wide.mT)
    values = squares.clamp_min(0).sqrt().to(matrix.dtype)
    counts = values > rounding
    inverse = torch.where(counts, squares, 1).rsqrt() * counts
    root = ((vectors * inverse.unsqueeze(-2)) @ vectors.mT).to(matrix.dtype)
    return torch.where(counts, values, 0), matrix @ root if is_tall else root @ matrix
