"""Functions of the cosine on the unit sphere of R^D: zonal kernels, their mean under the uniform law, polynomials."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from torch import Tensor

from hypersphere.torch_internals import plain_operations

Array = NDArray[np.float64]
HIGHEST = 1000  # degree of a kernel
STRIP = 2**15  # cosines that are evaluated together, in the cache


def harmonic(degree: int, cosines: Array, dim: int) -> Array:
    """P_0 … P_degree at the cosines, (degree+1, …): the zonal polynomials of R^dim with P(1) = 1.

    >>> harmonic(2, np.array([0.5]), 3)[2].item()  # Legendre's (3c²-1)/2
    -0.125
    """
    values = [np.ones_like(cosines), cosines]
    for k in range(1, degree):
        values.append(((2 * k + dim - 2) * cosines * values[k] - k * values[k - 1]) / (k + dim - 2))
    return np.stack(values[: degree + 1])


def log_multiplicity(degree: int, dim: int) -> float:
    """log of the number of linearly independent harmonics of a degree."""
    if dim == 2 or degree == 0:
        return math.log(2) if degree else 0.0
    count = math.lgamma(degree + dim - 2) - math.lgamma(degree + 1) - math.lgamma(dim - 2)
    return math.log((2 * degree + dim - 2) / (dim - 2)) + count


def uniform_law(dim: int, number: int = 100) -> tuple[Array, Array]:
    """Nodes and weights of Gauss' quadrature for one coordinate of a uniform unit vector of R^dim."""
    half, k = (dim - 2) / 2, np.arange(1, number)
    with np.errstate(invalid="ignore"):
        squares = k * (k + 2 * half - 1) / (4 * (k + half) * (k + half - 1))
    squares[0] = 1 / dim
    nodes, vectors = np.linalg.eigh(np.diag(np.sqrt(squares), 1) + np.diag(np.sqrt(squares), -1))
    return nodes, vectors[0] ** 2


def characteristic_function(t: Tensor, dim: int) -> Tensor:
    """₀F₁(; D/2; -t²/4), the mean of cos(t·c) for one coordinate c of a uniform unit vector of R^dim."""
    nodes, weights = (torch.from_numpy(each) for each in uniform_law(dim, 100 + int(t.max())))
    return torch.outer(t, nodes).cos() @ weights  # in torch, because torch.func gives a t that NumPy cannot read


def kummer(a: float, b: float, x: Array) -> Array:
    """M(a, b, x) of Kummer, for |x| up to a few."""
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(60):
        term = term * ((a + k) * x / ((b + k) * (k + 1)))
        total = total + term
    return total


@lru_cache(maxsize=64)
def sphere_test(test: str, kernel: str, dim: int, time: float, cutoff: int) -> tuple[float, ...]:
    """Chebyshev coefficients of the function of a pair's cosine whose mean over pairs is the test.

    mmd: (φ(c) - C)/(1 - C), C the mean of φ under the uniform law; ksd: the same of ½[(c²-1)φ'' + (D-1)cφ']; both are
    1 at c = 1. kl: φ itself. φ(1) = 1.
    """
    if kernel == "induced":
        return _of_induced(test, dim)
    logs = [log_multiplicity(degree, dim) for degree in range(cutoff + 1)]
    if kernel == "heat":
        logs = _heat(dim, time / dim)
    if test != "kl":
        logs[0] = -math.inf
    weights = np.exp(np.array(logs) - max(logs))
    degrees = np.arange(len(weights))
    if test == "ksd":
        weights = weights * degrees * (degrees + dim - 2)
    weights = weights / weights.sum()
    highest = len(weights) - 1
    return _interpolated(lambda c: weights @ harmonic(highest, c, dim), highest)


def _heat(dim: int, t: float) -> list[float]:
    """log of e^{-tλ} times the multiplicity, for every degree that is not lost beside the largest."""
    logs: list[float] = []
    while len(logs) < 2 or logs[-1] > max(logs) - 42 or logs[-1] > logs[-2]:
        degree = len(logs)
        if degree > HIGHEST:
            raise ValueError(f"the heat kernel of time {t * dim:g} has more than {HIGHEST} degrees; use a longer time")
        logs.append(log_multiplicity(degree, dim) - t * degree * (degree + dim - 2))
    return logs


def _of_induced(test: str, dim: int) -> tuple[float, ...]:
    """Of φ(c) = M(½, D/2, c-1), the kernel of the sliced test averaged over all directions."""
    half = dim / 2

    def phi(c: Array) -> Array:
        return kummer(0.5, half, c - 1)

    def stein(c: Array) -> Array:
        first = 0.5 / half * kummer(1.5, half + 1, c - 1)
        second = 0.75 / (half * (half + 1)) * kummer(2.5, half + 2, c - 1)
        return (c**2 - 1) * second + (dim - 1) * c * first

    nodes, weights = uniform_law(dim)
    mean, end = (weights @ phi(nodes)).item() if test == "mmd" else 0.0, np.ones(1)
    function = stein if test == "ksd" else phi
    top = function(end).item() - mean
    return _interpolated(lambda c: (function(c) - mean) / top, 40)


def _interpolated(function: Any, degree: int) -> tuple[float, ...]:
    """Chebyshev coefficients of a polynomial, or of a function that this degree determines."""
    return _without_rounding(tuple(chebyshev.chebinterpolate(function, max(degree, 1)).tolist()), 1e-17)


@lru_cache(maxsize=64)
def _without_rounding(coefficients: tuple[float, ...], eps: float) -> tuple[float, ...]:
    """Without the last coefficients, as far as all of them together are lost beside the others."""
    sizes = np.abs(np.array(coefficients))
    rest = sizes[::-1].cumsum()[::-1]  # of this coefficient and all after it
    return coefficients[: max(2, int((rest > eps * rest[0]).nonzero()[0].max()) + 1)]


def polynomial(cosines: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Σ_k coefficients_k T_k(c) with Chebyshev's polynomials T; only the derivative is kept for backward."""
    coefficients = _without_rounding(coefficients, torch.finfo(cosines.dtype).eps / 16)
    if plain_operations():
        return _clenshaw(cosines, coefficients)
    values: Tensor = _Polynomial.apply(cosines, coefficients)  # type: ignore[no-untyped-call]
    return values


def _clenshaw(c: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """b_k = a_k + 2c b_{k+1} - b_{k+2}; the sum is a_0 + c b_1 - b_2."""
    first, second = torch.zeros_like(c), torch.zeros_like(c)
    for a in reversed(coefficients[1:]):
        first, second = torch.addcmul(a - second, c, first, value=2), first
    return torch.addcmul(coefficients[0] - second, c, first)


def _clenshaw_in_place(c: Tensor, coefficients: tuple[float, ...], first: Tensor, second: Tensor, out: Tensor) -> None:
    """The same into ``out``, with two tensors of the same shape to work in."""
    first.zero_()
    second.zero_()
    for a in reversed(coefficients[1:]):
        second.neg_().add_(a).addcmul_(c, first, value=2)
        first, second = second, first
    torch.addcmul(second.neg_().add_(coefficients[0]), c, first, out=out)


class _Polynomial(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cosines: Tensor, coefficients: tuple[float, ...]) -> Tensor:
        grads = tuple(chebyshev.chebder(np.array(coefficients)).tolist())
        values = torch.empty_like(cosines, memory_format=torch.contiguous_format)
        derivatives = torch.empty_like(values) if ctx.needs_input_grad[0] else None
        rows = max(1, STRIP // max(1, cosines.shape[-1]))
        work = values.new_empty(2, min(rows, len(cosines)), *cosines.shape[1:])
        for start in range(0, len(cosines), rows):
            here = slice(start, start + rows)
            c = cosines[here]
            _clenshaw_in_place(c, coefficients, work[0, : len(c)], work[1, : len(c)], values[here])
            if derivatives is not None:
                _clenshaw_in_place(c, grads, work[0, : len(c)], work[1, : len(c)], derivatives[here])
        ctx.save_for_backward(cosines, derivatives)
        ctx.grads = grads
        return values

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        cosines, derivatives = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated
            derivatives = _clenshaw(cosines, ctx.grads)
        return upstream * derivatives, None
