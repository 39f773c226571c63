"""Tests of a sample for the uniform law on the sphere, one pair at a time. Special functions are SciPy's."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.integrate import quad
from scipy.special import eval_gegenbauer, gamma, hyp0f1, hyp1f1

from tests.reference.features import refuse_negatives
from tests.reference.slices import columns_of, epps_pulley, prediction
from tests.reference.vectors import Labels, Matrix, Rows, dot, mean, unit_rows

Function = Callable[[float], float]


def kernel_of(kernel: str, dim: int, time: float, cutoff: int) -> Function:
    """phi(c) as a sum of Gegenbauer polynomials, or Kummer's function, scaled to phi(1) = 1. Dimensions above 2."""
    if kernel == "induced":
        return lambda c: float(hyp1f1(0.5, dim / 2, c - 1))
    index = dim / 2 - 1
    degrees = range(40) if kernel == "heat" else range(cutoff + 1)

    def phi(c: float) -> float:
        total = 0.0
        for k in degrees:  # multiplicity times P_k(c) is (k + index)/index times Gegenbauer's C_k(c)
            weight = math.exp(-time / dim * k * (k + dim - 2)) if kernel == "heat" else 1.0
            total += weight * (k + index) / index * float(eval_gegenbauer(k, index, c))
        return total

    top = phi(1.0)
    return lambda c: phi(c) / top


def uniform_mean(function: Function, dim: int) -> float:
    """The mean over one coordinate of a uniform unit vector, density proportional to (1-c^2)^{(dim-3)/2}."""
    constant = gamma(dim / 2) / (math.sqrt(math.pi) * gamma((dim - 1) / 2))
    value, _ = quad(lambda angle: function(math.cos(angle)) * math.sin(angle) ** (dim - 2), 0, math.pi, epsabs=1e-14)
    return float(constant * value)


def stein(phi: Function, dim: int) -> Function:
    """½[(c²-1)phi'' + (dim-1) c phi'], minus half the Laplacian on the sphere, by central differences of phi in the
    angle: phi(cos x) has the Laplacian f'' + (dim-2) cot(x) f'. At c = 1 it is (dim-1) f''."""
    step = 1e-3

    def f(angle: float) -> float:
        return phi(math.cos(angle))

    def value(c: float) -> float:
        x = math.acos(max(-1.0, min(1.0, c)))
        near = [f(x + k * step) for k in range(-3, 4)]
        second = (2 * near[0] - 27 * near[1] + 270 * near[2] - 490 * near[3] + 270 * near[4] - 27 * near[5]
                  + 2 * near[6]) / (180 * step**2)  # fmt: skip
        first = (-near[0] + 9 * near[1] - 45 * near[2] + 45 * near[4] - 9 * near[5] + near[6]) / (60 * step)
        if math.sin(x) < 1e-6:
            return -(dim - 1) * second / 2
        return -(second + (dim - 2) * first / math.tan(x)) / 2

    return value


def test_of(rows: Matrix, test: str, phi: Function) -> float:
    dim, size = len(rows[0]), len(rows)
    if test == "kl":
        logs = []
        for i in range(size):
            logs.append(math.log(mean([phi(dot(rows[i], rows[j])) for j in range(size) if j != i])))
        return mean(logs)
    function = stein(phi, dim) if test == "ksd" else phi
    uniform = 0.0 if test == "ksd" else uniform_mean(phi, dim)
    values = [function(1.0 if i == j else dot(rows[i], rows[j])) for i in range(size) for j in range(size)]
    return (mean(values) - uniform) / (function(1.0) - uniform)


def sliced(rows: Matrix, directions: Rows | None, knots: int, t_max: float) -> float:
    """sigreg's statistic against the characteristic function of one coordinate of a uniform unit vector."""
    dim = len(rows[0])
    return mean(
        [
            epps_pulley(
                [dot(row, direction) for row in rows], knots, t_max, lambda t: float(hyp0f1(dim / 2, -t * t / 4))
            )
            for direction in columns_of(directions, dim)
        ]
    )


def sphere_jepa(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    test: str = "mmd",
    kernel: str = "heat",
    time: float = 5.0,
    cutoff: int = 2,
    knots: int = 17,
    t_max: float = 3.0,
    weight: float = 0.05,
    num_global: int | None = None,
    num_slices: int | None = None,
    directions: Rows | None = None,
) -> float:
    """(1-w) dim prediction of unit rows + w mean over views of the test."""
    refuse_negatives("sphere_jepa", negatives)
    views = [unit_rows(z1), unit_rows(z2)]
    dim = len(views[0][0])
    if test == "sliced":
        tests = [sliced(rows, directions, knots, t_max) for rows in views]
    else:
        phi = kernel_of(kernel, dim, time, cutoff)
        tests = [test_of(rows, test, phi) for rows in views]
    return (1 - weight) * dim * prediction(views, num_global) + weight * mean(tests)
