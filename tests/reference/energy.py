"""Alignment and energy."""

from __future__ import annotations

import math

from tests.reference.vectors import (
    Labels,
    Matrix,
    Rows,
    Vector,
    anchor_views,
    dot,
    euclidean,
    logsumexp,
    mean,
    negative_cosines,
    positive_cosines,
    squared_distance,
    unit_rows,
)

RIESZ_FLOOR = 1e-6


def alignment(h: Matrix, hp: Matrix, alpha: float = 2.0) -> float:
    """mean_i |h_i-h'_i|^alpha."""
    return mean([euclidean(c) ** alpha for c in positive_cosines(h, hp)])


def uniformity(h: Matrix, columns: Matrix, extra: Matrix, t: float) -> float:
    """log mean over the pairs (anchor, column) of e^{-t|.|^2}."""
    exponents = []
    for row in negative_cosines(h, columns, extra):
        for s in row:
            exponents.append(-t * squared_distance(s))
    return logsumexp(exponents) - math.log(len(exponents))


def align_uniform(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    alpha: float = 2.0,
    t: float = 2.0,
    weight: float = 0.5,
    pairs: str = "same",
) -> float:
    """(1-w) mean_i |h_i-h'_i|^alpha + w U, U = U(h,h') (cross) or (U(h,h)+U(h',h'))/2 (same)."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    if pairs == "cross":
        uniform = uniformity(h, hp, extra, t)
    elif pairs == "same":
        uniform = 0.5 * (uniformity(h, h, extra, t) + uniformity(hp, hp, extra, t))
    else:
        raise ValueError(f"unknown pairs {pairs!r}")
    return (1.0 - weight) * alignment(h, hp, alpha) + weight * uniform


def riesz_kernel(q: float, s: float) -> float:
    """sign(s) q^{-s/2}, the distance kept above 1e-6 where s > 0."""
    if s > 0.0:
        return max(math.sqrt(q), RIESZ_FLOOR) ** -s
    return -(math.sqrt(q) ** -s)


def mhe_energy(h: Matrix, extra: Matrix, s: float = 0.0) -> float:
    """log mean_{i != j} e^{-|h_i-h_j|^2} (s = 0) or mean_{i != j} sign(s)|h_i-h_j|^{-s}."""
    if s == 0.0:
        return uniformity(h, h, extra, 1.0)
    values = []
    for row in negative_cosines(h, h, extra):
        for a in row:
            values.append(riesz_kernel(squared_distance(a), s))
    return mean(values)


def mhs_terms(h: Matrix, extra: Matrix) -> Vector:
    """U_i = -min_{j != i} |h_i-h_j|."""
    return [-min(euclidean(a) for a in row) for row in negative_cosines(h, h, extra)]


def mhe(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    weight: float = 10.0,
    s: float = 0.0,
    views: str = "anchor",
) -> float:
    """mean_i |h_i-h'_i|^2 + w U(h), U the hyperspherical energy; both: + w U(h')."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    energy = 0.0
    for x, _ in anchor_views(h, hp, views):
        energy += mhe_energy(x, extra, s)
    return alignment(h, hp) + weight * energy


def mhs(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    weight: float = 1.0,
    views: str = "anchor",
) -> float:
    """mean_i |h_i-h'_i|^2 - w mean_i min_{j != i} |h_i-h_j|; both: also over h'."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    energy = 0.0
    for x, _ in anchor_views(h, hp, views):
        energy += mean(mhs_terms(x, extra))
    return alignment(h, hp) + weight * energy


def dhel_energy_terms(h: Matrix, extra: Matrix, temperature: float) -> Vector:
    """LSE_{j != i}(a_ij/tau)."""
    return [logsumexp([a / temperature for a in row]) for row in negative_cosines(h, h, extra)]


def dhel(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.3,
    energy: str = "anchor",
) -> float:
    """-c_i/tau + LSE_{j != i}(a_ij/tau); both: + LSE(b_ij/tau); symmetric: half of each."""
    shares = {"anchor": (1.0, 0.0), "both": (1.0, 1.0), "symmetric": (0.5, 0.5)}
    if energy not in shares:
        raise ValueError(f"unknown energy {energy!r}")
    first, second = shares[energy]
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    own = dhel_energy_terms(h, extra, temperature)
    other = dhel_energy_terms(hp, extra, temperature)
    out = []
    for i, c in enumerate(positive_cosines(h, hp)):
        out.append(-c / temperature + first * own[i] + second * other[i])
    return mean(out)


def kernel_value(kernel: str, q: float, t: float, c: float, s: float) -> float:
    """K(q): e^{-tq}, -log(1+tq)/2, c/sqrt(c^2+q) or sign(s) q^{-s/2}."""
    if kernel == "gaussian":
        return math.exp(-t * q)
    if kernel == "log":
        return -0.5 * math.log1p(t * q)
    if kernel == "imq":
        return c / math.sqrt(c * c + q)
    if kernel == "riesz":
        return riesz_kernel(q, s)
    raise ValueError(f"unknown kernel {kernel!r}")


def kcl_energy(h: Matrix, extra: Matrix, kernel: str, t: float, c: float, s: float) -> float:
    """mean_{i != j} K_U(|h_i-h_j|^2)."""
    values = []
    for row in negative_cosines(h, h, extra):
        for a in row:
            values.append(kernel_value(kernel, squared_distance(a), t, c, s))
    return mean(values)


def kcl(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    kernel: str = "gaussian",
    t: float = 2.0,
    c: float = 2.0,
    s: float = 1.0,
    gamma: float = 16.0,
    views: str = "anchor",
) -> float:
    """-mean_i K_A(h_i,h'_i) + gamma mean_{i != j} K_U(h_i,h_j); both: the sum of the two views' losses."""
    align_kernel, energy_kernel = (kernel, kernel) if kernel != "gaussian_riesz" else ("gaussian", "riesz")
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    aligned = []
    for cosine in positive_cosines(h, hp):
        aligned.append(kernel_value(align_kernel, squared_distance(cosine), t, c, s))
    first = -mean(aligned) + gamma * kcl_energy(h, extra, energy_kernel, t, c, s)
    if views == "anchor":
        return first
    if views == "both":
        return first - mean(aligned) + gamma * kcl_energy(hp, extra, energy_kernel, t, c, s)
    raise ValueError(f"unknown views {views!r}")


def spectral(z1: Rows, z2: Rows, labels: Labels | None = None, negatives: Rows | None = None) -> float:
    """-2 mean_i s_ii + mean_{i != j} s_ij^2."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    squares = []
    for row in negative_cosines(h, hp, extra):
        for s in row:
            squares.append(s * s)
    return -2.0 * mean(positive_cosines(h, hp)) + mean(squares)


def cloa_term(anchors: Rows, labels: Labels, z1: Rows, z2: Rows) -> float:
    """mean over the labelled rows and both views of 1 - cos(z_i, c_{y_i}), 0 without a labelled row."""
    corners = unit_rows(anchors)
    values = []
    for view in (unit_rows(z1), unit_rows(z2)):
        for row, label in zip(view, labels, strict=True):
            if int(label) >= 0:
                values.append(1.0 - dot(row, corners[int(label)]))
    return mean(values) if values else 0.0
