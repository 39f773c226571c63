"""Modified objectives: the anchor x_i has the gradient d_i (sum_j W_ij x_j - P_i y_i)."""

from __future__ import annotations

import math
from functools import partial

from tests.reference.energy import mhs_terms, uniformity
from tests.reference.gradients import raw_gradients
from tests.reference.margins import gate
from tests.reference.vectors import (
    Gradients,
    Labels,
    Matrix,
    Rows,
    anchor_views,
    dot,
    euclidean,
    logsumexp,
    positive_cosines,
    squared_distance,
    unit_rows,
)


def column_cosines(x: Matrix, columns: Matrix, extra: Matrix) -> Matrix:
    """Row i: x_i.n_j over all columns (j = i included), then over the extra rows."""
    return [[dot(row, key) for key in columns + extra] for row in x]


def global_softmax(cosines: Matrix, scale: float) -> Matrix:
    """e^{scale c_ij}/sum_{k != l} e^{scale c_kl}, zero at j = i; extra columns count in the sum."""
    exponents = [scale * v for i, row in enumerate(cosines) for j, v in enumerate(row) if j != i]
    log_total = logsumexp(exponents)
    out = []
    for i, row in enumerate(cosines):
        out.append([math.exp(scale * v - log_total) if j != i else 0.0 for j, v in enumerate(row)])
    return out


def nearest_weights(cosines: Matrix, scale: float) -> Matrix:
    """scale/|x_i-x_j| on the nearest j != i, zero elsewhere."""
    out = []
    for i, row in enumerate(cosines):
        nearest = -1
        for j, v in enumerate(row):
            if j != i and (nearest < 0 or v > row[nearest]):
                nearest = j
        out.append([scale / euclidean(v) if j == nearest else 0.0 for j, v in enumerate(row)])
    return out


def times(matrix: Matrix, factor: float) -> Matrix:
    """factor M, entry by entry, the diagonal put to zero."""
    return [[factor * v if j != i else 0.0 for j, v in enumerate(row)] for i, row in enumerate(matrix)]


def modified_weights(
    name: str, x: Matrix, y: Matrix, extra: Matrix, stage: str, temperature: float, weight: float
) -> Matrix:
    """W_ij over all columns x_j and extra rows; sum_{k<l} is half the sum over the pairs (anchor, column)."""
    early = stage in ("original", "+gd")
    same = column_cosines(x, x, extra)
    if name == "mmhe" and early:
        return times(global_softmax(same, 2.0), 2.0 * weight * 2.0)
    if name == "mmhe":
        return times(global_softmax(same, 1.0 / temperature), 2.0 / temperature)
    if name == "mmhs":
        return nearest_weights(same, weight if early else 1.0)
    if name == "mbarlow" and early:
        return times(column_cosines(y, y, extra), 2.0 * weight / len(x) ** 2)
    if name == "mbarlow":
        return global_softmax(column_cosines(x, y, extra), 1.0 / temperature)
    if name == "mvicreg" and early:
        return times(same, 2.0 * weight / len(x) ** 2)
    if name == "mvicreg":
        return global_softmax(same, 1.0 / temperature)
    raise ValueError(f"unknown objective {name!r}")


def modified_positives(
    name: str, x: Matrix, y: Matrix, weights: Matrix, stage: str, ratio: float, weight: float
) -> Matrix:
    """P_i y_i: (2/N) y_i, r sum_j W_ij y_i at +r, (2/N)(I-(1-w) diag C) y_i for original Barlow Twins."""
    n, width = len(x), len(x[0])
    out = []
    for i in range(n):
        if stage == "+r":
            total = ratio * math.fsum(weights[i])
            out.append([total * v for v in y[i]])
        elif name == "mbarlow" and stage in ("original", "+gd"):
            row = []
            for k in range(width):
                diagonal = math.fsum(x[j][k] * y[j][k] for j in range(n)) / n
                row.append(2.0 / n * (1.0 - (1.0 - weight) * diagonal) * y[i][k])
            out.append(row)
        else:
            out.append([2.0 / n * v for v in y[i]])
    return out


def modified_unit_gradient(
    name: str,
    x: Matrix,
    y: Matrix,
    extra: Matrix,
    margin: float,
    temperature: float,
    ratio: float,
    weight: float,
    stage: str,
) -> Matrix:
    """d_i (sum_j W_ij x_j - P_i y_i) for every anchor of the view x, d_i = 1 at the original stage."""
    stages = ("original", "+gd", "+r") if name == "mmhs" else ("original", "+gd", "+w", "+r")
    if stage not in stages:
        raise ValueError(f"{name} has no stage {stage!r}")
    weights = modified_weights(name, x, y, extra, stage, temperature, weight)
    positives = modified_positives(name, x, y, weights, stage, ratio, weight)
    gates = [1.0] * len(x) if stage == "original" else gate(x, y, extra, margin)
    columns = x + extra
    out = []
    for i in range(len(x)):
        gradient = [-v for v in positives[i]]
        for j, key in enumerate(columns):
            if j != i:
                for k, v in enumerate(key):
                    gradient[k] += weights[i][j] * v
        out.append([gates[i] * v for v in gradient])
    return out


def modified_value(
    name: str,
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float,
    weight: float,
    stage: str = "+r",
    views: str = "both",
) -> float:
    """sum_i d_i (sum_j W_ij x_i.x_j - P_i x_i.y_i), over one view or both."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    total = 0.0
    for x, y in anchor_views(h, hp, views):
        gradient = modified_unit_gradient(name, x, y, extra, margin, temperature, ratio, weight, stage)
        for row, grad in zip(x, gradient, strict=True):
            total += dot(row, grad)
    return total


def modified_gradient(
    name: str,
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float,
    weight: float,
    stage: str = "+r",
    views: str = "both",
) -> Gradients:
    """(I-hh^T)/|g| d_i (sum_j W_ij x_j - P_i y_i) for every row of both views; zero where not an anchor."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    gradients = []
    for x, y in anchor_views(h, hp, views):
        gradients.append(modified_unit_gradient(name, x, y, extra, margin, temperature, ratio, weight, stage))
    if len(gradients) == 1:
        gradients.append([[0.0] * len(row) for row in hp])
    return raw_gradients(z1, gradients[0]), raw_gradients(z2, gradients[1])


# W_ij at +r
# mmhe: e^{a_ij/tau}/(tau sum_{k<l} e^{a_kl/tau})      mmhs: 1/|x_i-x_j| on the nearest
# mbarlow: e^{s_ij/tau}/sum_{k != l} e^{s_kl/tau}      mvicreg: the same of a_ij
mmhe = partial(modified_value, "mmhe", ratio=1.75, weight=10.0)
mmhs = partial(modified_value, "mmhs", ratio=1.75, weight=1.0)
mbarlow = partial(modified_value, "mbarlow", ratio=1.5, weight=30.0)
mvicreg = partial(modified_value, "mvicreg", ratio=1.5, weight=30.0)

mmhe_gradient = partial(modified_gradient, "mmhe", ratio=1.75, weight=10.0)
mmhs_gradient = partial(modified_gradient, "mmhs", ratio=1.75, weight=1.0)
mbarlow_gradient = partial(modified_gradient, "mbarlow", ratio=1.5, weight=30.0)
mvicreg_gradient = partial(modified_gradient, "mvicreg", ratio=1.5, weight=30.0)


def mmhe_literal(z1: Rows, z2: Rows, *, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.75) -> float:
    """log mean_{k<l} e^{-|h_k-h_l|^2/(2 tau)} + sum_i d_i (r/2) kappa_i |h_i-h'_i|^2, one view."""
    h, hp = unit_rows(z1), unit_rows(z2)
    gates = gate(h, hp, [], margin)
    weights = modified_weights("mmhe", h, hp, [], "+r", temperature, 1.0)
    value = uniformity(h, h, [], 1.0 / (2.0 * temperature))
    for i, c in enumerate(positive_cosines(h, hp)):
        value += gates[i] * 0.5 * ratio * math.fsum(weights[i]) * squared_distance(c)
    return value


def mmhs_literal(z1: Rows, z2: Rows, *, margin: float = 0.3, ratio: float = 1.75) -> float:
    """sum_i d_i (-min_j |h_i-h_j| + r/(2 min_j |h_i-h_j|) |h_i-h'_i|^2), one view."""
    h, hp = unit_rows(z1), unit_rows(z2)
    gates, energies = gate(h, hp, [], margin), mhs_terms(h, [])
    value = 0.0
    for i, c in enumerate(positive_cosines(h, hp)):
        value += gates[i] * (energies[i] + ratio / (-2.0 * energies[i]) * squared_distance(c))
    return value
