"""Plain-loop references of the contrastive objectives: math and lists, one anchor and one negative at a time.

Conventions: rows come in raw and are normalised here (Barlow Twins with batch normalisation and VICReg read
raw features). h, h' are the unit rows of the two views; s_ij = h_i.h'_j, a_ij = h_i.h_j, b_ij = h'_i.h'_j.
`negatives` are extra raw rows, normalised, further unmasked columns of every similarity matrix that is read.
Every value is a mean over anchors but for the modified objectives, which are sums over anchors and views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Vector = list[float]
Matrix = list[list[float]]
Rows = Sequence[Sequence[float]] | np.ndarray
Labels = Sequence[int] | np.ndarray
Gradients = tuple[Matrix, Matrix]

DEFAULT_MARGINS = {"dot": 0.23, "euclidean": 0.45, "angle": 0.15 * math.pi}
RIESZ_FLOOR = 1e-6
BALL_EDGE = 1.0 - 1e-5
CLIP_NORM = 2.3


# ---------------------------------------------------------------------------------------------------------
# vectors


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    """x.y = sum_k x_k y_k."""
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += a * b
    return total


def norm(x: Sequence[float]) -> float:
    """|x| = sqrt(x.x), scaled by the largest entry first."""
    largest = max(abs(v) for v in x)
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(sum((v / largest) * (v / largest) for v in x))


def to_rows(z: Rows | None) -> Matrix:
    """Plain lists of floats, the empty list for None."""
    return [] if z is None else [[float(v) for v in row] for row in z]


def unit_rows(z: Rows | None) -> Matrix:
    """h_i = g_i/|g_i|, a zero row stays zero."""
    out = []
    for row in to_rows(z):
        length = norm(row)
        out.append([v / length for v in row] if length > 0.0 else [0.0 for _ in row])
    return out


def logsumexp(values: Sequence[float]) -> float:
    """LSE(v) = log sum_k e^{v_k}, with the maximum subtracted first."""
    top = max(values)
    total = 0.0
    for v in values:
        total += math.exp(v - top)
    return top + math.log(total)


def softmax(values: Sequence[float]) -> Vector:
    """q_k = e^{v_k}/sum_l e^{v_l}."""
    log_total = logsumexp(values)
    return [math.exp(v - log_total) for v in values]


def softplus(v: float) -> float:
    """log(1 + e^v)."""
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return math.fsum(values) / len(values)


def squared_distance(cosine: float) -> float:
    """q = 2 - 2 cos."""
    return max(0.0, 2.0 - 2.0 * cosine)


def euclidean(cosine: float) -> float:
    """d = sqrt(2 - 2 cos)."""
    return math.sqrt(squared_distance(cosine))


def angle_of(cosine: float) -> float:
    """theta = arccos(cos)."""
    return math.acos(max(-1.0, min(1.0, cosine)))


def positive_cosines(h: Matrix, hp: Matrix) -> Vector:
    """c_i = s_ii = h_i.h'_i."""
    return [dot(x, y) for x, y in zip(h, hp, strict=True)]


def negative_cosines(h: Matrix, columns: Matrix, extra: Matrix) -> Matrix:
    """Row i: h_i.n_j over the columns j != i, then over the extra rows."""
    out = []
    for i, x in enumerate(h):
        row = []
        for j, y in enumerate(columns):
            if j != i:
                row.append(dot(x, y))
        for e in extra:
            row.append(dot(x, e))
        out.append(row)
    return out


def stacked_cosines(h: Matrix, hp: Matrix, extra: Matrix) -> tuple[Vector, Matrix]:
    """z = (h, h'), per row of the 2N: the positive z_i.z_j(i) and the 2N-2 negatives, then the extra rows."""
    n = len(h)
    z = h + hp
    positives, negatives = [], []
    for i in range(2 * n):
        partner = i + n if i < n else i - n
        positives.append(dot(z[i], z[partner]))
        row = []
        for a in range(2 * n):
            if a != i and a != partner:
                row.append(dot(z[i], z[a]))
        for e in extra:
            row.append(dot(z[i], e))
        negatives.append(row)
    return positives, negatives


# ---------------------------------------------------------------------------------------------------------
# softmax objectives


def infonce_terms(positives: Vector, negatives: Matrix, temperature: float) -> Vector:
    """L_i = LSE(s_ii/tau, s_ij/tau over the negatives) - s_ii/tau."""
    out = []
    for c, row in zip(positives, negatives, strict=True):
        logits = [c / temperature]
        for s in row:
            logits.append(s / temperature)
        out.append(logsumexp(logits) - c / temperature)
    return out


def dcl_terms(positives: Vector, negatives: Matrix, temperature: float) -> Vector:
    """L_i = -s_ii/tau + LSE_{j != i}(s_ij/tau)."""
    out = []
    for c, row in zip(positives, negatives, strict=True):
        out.append(-c / temperature + logsumexp([s / temperature for s in row]))
    return out


def infonce(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.05,
    symmetric: bool = False,
) -> float:
    """-log(e^{s_ii/tau}/sum_j e^{s_ij/tau}); symmetric: the mean of rows and columns."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    rows = infonce_terms(positive_cosines(h, hp), negative_cosines(h, hp, extra), temperature)
    if not symmetric:
        return mean(rows)
    columns = infonce_terms(positive_cosines(hp, h), negative_cosines(hp, h, extra), temperature)
    return 0.5 * (mean(rows) + mean(columns))


def ntxent(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.5,
) -> float:
    """l_i = -z_i.z_j(i)/tau + LSE_{a != i}(z_i.z_a/tau) over the 2N stacked rows."""
    positive, negative = stacked_cosines(unit_rows(z1), unit_rows(z2), unit_rows(negatives))
    return mean(infonce_terms(positive, negative, temperature))


def dcl(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.05,
    pairs: str = "cross",
) -> float:
    """-s_ii/tau + LSE_{j != i}(s_ij/tau); both: NT-Xent without the positive in the denominator."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    if pairs == "cross":
        return mean(dcl_terms(positive_cosines(h, hp), negative_cosines(h, hp, extra), temperature))
    if pairs == "both":
        positive, negative = stacked_cosines(h, hp, extra)
        return mean(dcl_terms(positive, negative, temperature))
    raise ValueError(f"unknown pairs {pairs!r}")


def dclw(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.1,
    sigma: float = 0.5,
    pairs: str = "both",
) -> float:
    """DCL with the positive times w_i = 2 - e^{s_ii/sigma}/mean_k e^{s_kk/sigma}."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    if pairs == "cross":
        positive, negative = positive_cosines(h, hp), negative_cosines(h, hp, extra)
    elif pairs == "both":
        positive, negative = stacked_cosines(h, hp, extra)
    else:
        raise ValueError(f"unknown pairs {pairs!r}")
    average = mean([math.exp(c / sigma) for c in positive])
    out = []
    for c, row in zip(positive, negative, strict=True):
        w = 2.0 - math.exp(c / sigma) / average
        out.append(-w * c / temperature + logsumexp([s / temperature for s in row]))
    return mean(out)


def dcl_plus(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.15,
) -> float:
    """max(0, -s_ii/tau + LSE_{j != i}(s_ij/tau))."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    terms = dcl_terms(positive_cosines(h, hp), negative_cosines(h, hp, extra), temperature)
    return mean([max(0.0, v) for v in terms])


def geodesic(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.1,
) -> float:
    """NT-Xent with the similarity -theta = -arccos(cos)."""
    positive, negative = stacked_cosines(unit_rows(z1), unit_rows(z2), unit_rows(negatives))
    positive_angles = [-angle_of(c) for c in positive]
    negative_angles = [[-angle_of(s) for s in row] for row in negative]
    return mean(infonce_terms(positive_angles, negative_angles, temperature))


def siglip(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.1,
    bias: float = -10.0,
) -> float:
    """(1/N) sum_i sum_j softplus(-y_ij (s_ij/tau + b)), y = +1 on the diagonal, -1 off it."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    out = []
    for c, row in zip(positive_cosines(h, hp), negative_cosines(h, hp, extra), strict=True):
        value = softplus(-(c / temperature + bias))
        for s in row:
            value += softplus(s / temperature + bias)
        out.append(value)
    return mean(out)


def debiased(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.5,
    prior: float = 0.1,
) -> float:
    """-log(pos/(pos + max((sum_neg - prior M pos)/(1 - prior), M e^{-1/tau}))), M negatives, 2N anchors."""
    positive, negative = stacked_cosines(unit_rows(z1), unit_rows(z2), unit_rows(negatives))
    out = []
    for c, row in zip(positive, negative, strict=True):
        pos = math.exp(c / temperature)
        total = 0.0
        for s in row:
            total += math.exp(s / temperature)
        count = len(row)
        corrected = (total - prior * count * pos) / (1.0 - prior)
        floored = max(corrected, count * math.exp(-1.0 / temperature))
        out.append(-math.log(pos / (pos + floored)))
    return mean(out)


def ball_point(row: Sequence[float], curvature: float) -> Vector:
    """exp_0(x) = tanh(sqrt(c)|x|) x/(sqrt(c)|x|), |x| clipped to 2.3 and the image kept inside the ball."""
    length = norm(row)
    if length == 0.0:
        return [0.0 for _ in row]
    root = math.sqrt(curvature)
    radius = min(math.tanh(root * min(length, CLIP_NORM)), BALL_EDGE) / root
    return [radius * v / length for v in row]


def ball_distance(x: Sequence[float], y: Sequence[float], curvature: float) -> float:
    """d = arccosh(1 + 2c|x-y|^2/((1-c|x|^2)(1-c|y|^2)))/sqrt(c)."""
    gap = sum((a - b) * (a - b) for a, b in zip(x, y, strict=True))
    below = (1.0 - curvature * dot(x, x)) * (1.0 - curvature * dot(y, y))
    return math.acosh(1.0 + 2.0 * curvature * gap / below) / math.sqrt(curvature)


def hyperbolic(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.1,
    curvature: float = 1.0,
    weight: float = 0.1,
) -> float:
    """InfoNCE(cosine) + weight InfoNCE(-d), d the distance on the Poincare ball of curvature c."""
    x = [ball_point(row, curvature) for row in to_rows(z1)]
    y = [ball_point(row, curvature) for row in to_rows(z2)]
    extra = [ball_point(row, curvature) for row in to_rows(negatives)]
    positives, others = [], []
    for i, point in enumerate(x):
        positives.append(-ball_distance(point, y[i], curvature))
        row = []
        for j, key in enumerate(y):
            if j != i:
                row.append(-ball_distance(point, key, curvature))
        for key in extra:
            row.append(-ball_distance(point, key, curvature))
        others.append(row)
    cosine_part = infonce(z1, z2, negatives=negatives, temperature=temperature)
    return cosine_part + weight * mean(infonce_terms(positives, others, temperature))


def supcon(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.1,
    form: str = "out",
) -> float:
    """-(1/|P_i|) sum_{p in P_i} log(e^{z_i.z_p/tau}/sum_{a != i} e^{z_i.z_a/tau}); in: mean inside log."""
    if form not in ("out", "in"):
        raise ValueError(f"unknown form {form!r}")
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    n = len(h)
    z = h + hp
    classes = [-1] * n if labels is None else [int(v) for v in labels]
    out = []
    for i in range(2 * n):
        partner = i + n if i < n else i - n
        denominator, positives = [], []
        for a in range(2 * n):
            if a == i:
                continue
            logit = dot(z[i], z[a]) / temperature
            denominator.append(logit)
            same_class = classes[i % n] != -1 and classes[i % n] == classes[a % n]
            if a == partner or same_class:
                positives.append(logit)
        for e in extra:
            denominator.append(dot(z[i], e) / temperature)
        log_total = logsumexp(denominator)
        if form == "out":
            out.append(-mean([logit - log_total for logit in positives]))
        else:
            out.append(-math.log(mean([math.exp(logit - log_total) for logit in positives])))
    return mean(out)


def arccon(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    temperature: float = 0.05,
    angle: float = math.pi / 18.0,
) -> float:
    """-log(e^{cos(theta_ii+u)/tau}/(e^{cos(theta_ii+u)/tau} + sum_{j != i} e^{s_ij/tau}))."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    shifted = [math.cos(angle_of(c) + angle) for c in positive_cosines(h, hp)]
    return mean(infonce_terms(shifted, negative_cosines(h, hp, extra), temperature))


# ---------------------------------------------------------------------------------------------------------
# margins


def triplet(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    distance: str = "dot",
    margin: float | None = None,
) -> float:
    """max(0, d_ii - min_{j != i} d_ij + m), d = -cos, sqrt(2 - 2 cos) or arccos(cos)."""
    if distance not in DEFAULT_MARGINS:
        raise ValueError(f"unknown distance {distance!r}")
    measure = {"dot": lambda c: -c, "euclidean": euclidean, "angle": angle_of}[distance]
    m = DEFAULT_MARGINS[distance] if margin is None else margin
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    out = []
    for c, row in zip(positive_cosines(h, hp), negative_cosines(h, hp, extra), strict=True):
        nearest = min(measure(s) for s in row)
        out.append(max(0.0, measure(c) - nearest + m))
    return mean(out)


def mpt(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = DEFAULT_MARGINS["dot"],
) -> float:
    """max(0, m - s_ii + max_{j != i} s_ij)."""
    return triplet(z1, z2, labels, negatives, distance="dot", margin=margin)


def met(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = DEFAULT_MARGINS["euclidean"],
) -> float:
    """max(0, |h_i-h'_i| - min_{j != i} |h_i-h'_j| + m)."""
    return triplet(z1, z2, labels, negatives, distance="euclidean", margin=margin)


def mat(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = DEFAULT_MARGINS["angle"],
) -> float:
    """max(0, theta_ii - min_{j != i} theta_ij + m)."""
    return triplet(z1, z2, labels, negatives, distance="angle", margin=margin)


def gate(h: Matrix, hp: Matrix, extra: Matrix, margin: float) -> Vector:
    """d_i = 1[s_ii - max_{k != i} s_ik < m]."""
    out = []
    for c, row in zip(positive_cosines(h, hp), negative_cosines(h, hp, extra), strict=True):
        out.append(1.0 if c - max(row) < margin else 0.0)
    return out


def baseline_components(
    h: Matrix, hp: Matrix, extra: Matrix, margin: float, temperature: float
) -> tuple[Vector, Matrix]:
    """GD_i = d_i and W_ij = softmax_{j != i}(s_ij/tau), over the columns j != i and then the extra rows."""
    weights = [softmax([s / temperature for s in row]) for row in negative_cosines(h, hp, extra)]
    return gate(h, hp, extra, margin), weights


def paradigm(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.0,
) -> float:
    """GD_i sum_{j != i} W_ij (s_ij - r s_ii), GD the gate and W the softmax."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    gates, weights = baseline_components(h, hp, extra, margin, temperature)
    positive, negative = positive_cosines(h, hp), negative_cosines(h, hp, extra)
    out = []
    for i, row in enumerate(negative):
        value = 0.0
        for w, s in zip(weights[i], row, strict=True):
            value += w * (s - ratio * positive[i])
        out.append(gates[i] * value)
    return mean(out)


def paradigm_unit_gradient(
    h: Matrix, hp: Matrix, extra: Matrix, gates: Vector, weights: Matrix, ratios: Vector
) -> Gradients:
    """Gradients in h and h' of (1/N) sum_i GD_i sum_j W_ij (s_ij - R_i s_ii), with GD, W, R constants."""
    n, width = len(h), len(h[0])
    grad_h = [[0.0] * width for _ in range(n)]
    grad_hp = [[0.0] * width for _ in range(n)]
    for i in range(n):
        keys = [j for j in range(n) if j != i] + list(range(n, n + len(extra)))
        for j, w in zip(keys, weights[i], strict=True):
            scale = gates[i] * w / n
            key = hp[j] if j < n else extra[j - n]
            for k in range(width):
                grad_h[i][k] += scale * (key[k] - ratios[i] * hp[i][k])
                grad_hp[i][k] -= scale * ratios[i] * h[i][k]
                if j < n:
                    grad_hp[j][k] += scale * h[i][k]
    return grad_h, grad_hp


def paradigm_gradient(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.0,
) -> Gradients:
    """Raw-row gradient of (1/N) sum_i GD_i sum_j W_ij (s_ij - r s_ii), weights detached, vectors attached."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    gates, weights = baseline_components(h, hp, extra, margin, temperature)
    grad_h, grad_hp = paradigm_unit_gradient(h, hp, extra, gates, weights, [ratio] * len(h))
    return raw_gradients(z1, grad_h), raw_gradients(z2, grad_hp)


# ---------------------------------------------------------------------------------------------------------
# alignment and energy


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


# ---------------------------------------------------------------------------------------------------------
# features


def refuse_negatives(name: str, negatives: Rows | None) -> None:
    """Objectives over features have no columns to which extra rows could be added."""
    if negatives is not None:
        raise ValueError(f"{name} has no pairwise negatives")


def feature_columns(z: Rows) -> Matrix:
    """The D features, each as a list over the N rows."""
    rows = to_rows(z)
    return [[row[k] for row in rows] for k in range(len(rows[0]))]


def batch_normalised(column: Vector, eps: float = 1e-5) -> Vector:
    """(x - mean)/sqrt(var + eps), biased variance."""
    centre = mean(column)
    variance = mean([(v - centre) * (v - centre) for v in column])
    return [(v - centre) / math.sqrt(variance + eps) for v in column]


def barlow(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    weight: float = 0.0051,
    normalization: str = "batch",
) -> float:
    """sum_k (C_kk-1)^2 + w sum_{k != l} C_kl^2, C = (1/N) sum_i x_i y_i^T."""
    refuse_negatives("barlow", negatives)
    if normalization == "batch":
        first = [batch_normalised(column) for column in feature_columns(z1)]
        second = [batch_normalised(column) for column in feature_columns(z2)]
    elif normalization == "unit":
        first, second = feature_columns(unit_rows(z1)), feature_columns(unit_rows(z2))
    else:
        raise ValueError(f"unknown normalization {normalization!r}")
    total = 0.0
    for k, x in enumerate(first):
        for m, y in enumerate(second):
            correlation = dot(x, y) / len(x)
            total += (correlation - 1.0) ** 2 if k == m else weight * correlation**2
    return total


def vicreg_variance(columns: Matrix, gamma: float, eps: float) -> float:
    """v(Z) = (1/D) sum_k max(0, gamma - sqrt(Var_k + eps)), Var with 1/(N-1)."""
    out = []
    for column in columns:
        centre = mean(column)
        variance = math.fsum((v - centre) * (v - centre) for v in column) / (len(column) - 1)
        out.append(max(0.0, gamma - math.sqrt(variance + eps)))
    return mean(out)


def vicreg_covariance(columns: Matrix) -> float:
    """c(Z) = (1/D) sum_{k != l} Cov_kl^2, Cov centred and with 1/(N-1)."""
    total = 0.0
    for k, x in enumerate(columns):
        for m, y in enumerate(columns):
            if k == m:
                continue
            mean_x, mean_y = mean(x), mean(y)
            covariance = 0.0
            for a, b in zip(x, y, strict=True):
                covariance += (a - mean_x) * (b - mean_y)
            total += (covariance / (len(x) - 1)) ** 2
    return total / len(columns)


def vicreg(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
    gamma: float = 1.0,
    eps: float = 1e-4,
    normalization: str = "none",
) -> float:
    """inv MSE(Z,Z') + var (v(Z)+v(Z'))/2 + cov (c(Z)+c(Z'))."""
    refuse_negatives("vicreg", negatives)
    if normalization not in ("none", "unit"):
        raise ValueError(f"unknown normalization {normalization!r}")
    unit = normalization == "unit"
    first = feature_columns(unit_rows(z1) if unit else z1)
    second = feature_columns(unit_rows(z2) if unit else z2)
    gaps = []
    for x, y in zip(first, second, strict=True):
        for a, b in zip(x, y, strict=True):
            gaps.append((a - b) * (a - b))
    spread = 0.5 * (vicreg_variance(first, gamma, eps) + vicreg_variance(second, gamma, eps))
    redundancy = vicreg_covariance(first) + vicreg_covariance(second)
    return invariance * mean(gaps) + variance * spread + covariance * redundancy


# ---------------------------------------------------------------------------------------------------------
# modified objectives: the anchor x_i has the gradient d_i (sum_j W_ij x_j - P_i y_i)


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
    negatives: Rows | None,
    margin: float,
    temperature: float,
    ratio: float,
    weight: float,
    stage: str,
    views: str,
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
    negatives: Rows | None,
    margin: float,
    temperature: float,
    ratio: float,
    weight: float,
    stage: str,
    views: str,
) -> Gradients:
    """(I-hh^T)/|g| d_i (sum_j W_ij x_j - P_i y_i) for every row of both views; zero where not an anchor."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    gradients = []
    for x, y in anchor_views(h, hp, views):
        gradients.append(modified_unit_gradient(name, x, y, extra, margin, temperature, ratio, weight, stage))
    if len(gradients) == 1:
        gradients.append([[0.0] * len(row) for row in hp])
    return raw_gradients(z1, gradients[0]), raw_gradients(z2, gradients[1])


def anchor_views(h: Matrix, hp: Matrix, views: str) -> list[tuple[Matrix, Matrix]]:
    """The pairs (x, y): anchor view and other view."""
    if views == "both":
        return [(h, hp), (hp, h)]
    if views == "anchor":
        return [(h, hp)]
    raise ValueError(f"unknown views {views!r}")


def mmhe(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.75,
    weight: float = 10.0,
    stage: str = "+r",
    views: str = "both",
) -> float:
    """sum_i d_i (sum_j W_ij x_i.x_j - P_i x_i.y_i), W_ij = e^{a_ij/tau}/(tau sum_{k<l} e^{a_kl/tau})."""
    return modified_value("mmhe", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mmhs(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.75,
    weight: float = 1.0,
    stage: str = "+r",
    views: str = "both",
) -> float:
    """sum_i d_i (sum_j W_ij x_i.x_j - P_i x_i.y_i), W_ij = 1/|x_i-x_j| on the nearest."""
    return modified_value("mmhs", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mbarlow(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.5,
    weight: float = 30.0,
    stage: str = "+r",
    views: str = "both",
) -> float:
    """sum_i d_i (sum_j W_ij x_i.x_j - P_i x_i.y_i), W_ij = e^{s_ij/tau}/sum_{k != l} e^{s_kl/tau}."""
    return modified_value("mbarlow", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mvicreg(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.5,
    weight: float = 30.0,
    stage: str = "+r",
    views: str = "both",
) -> float:
    """sum_i d_i (sum_j W_ij x_i.x_j - P_i x_i.y_i), W_ij = e^{a_ij/tau}/sum_{k != l} e^{a_kl/tau}."""
    return modified_value("mvicreg", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mmhe_gradient(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.75,
    weight: float = 10.0,
    stage: str = "+r",
    views: str = "both",
) -> Gradients:
    """Raw-row gradient of mMHE: d_i sum_j e^{a_ij/tau}(x_j - r y_i)/(tau sum_{k<l} e^{a_kl/tau}) at +r."""
    return modified_gradient("mmhe", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mmhs_gradient(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.75,
    weight: float = 1.0,
    stage: str = "+r",
    views: str = "both",
) -> Gradients:
    """Raw-row gradient of mMHS: d_i (x_j* - r y_i)/|x_i-x_j*| at +r."""
    return modified_gradient("mmhs", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mbarlow_gradient(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.5,
    weight: float = 30.0,
    stage: str = "+r",
    views: str = "both",
) -> Gradients:
    """Raw-row gradient of mB: d_i sum_j w_ij (x_j - r y_i), w from s_ij, at +r."""
    return modified_gradient("mbarlow", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


def mvicreg_gradient(
    z1: Rows,
    z2: Rows,
    labels: Labels | None = None,
    negatives: Rows | None = None,
    *,
    margin: float = 0.3,
    temperature: float = 0.05,
    ratio: float = 1.5,
    weight: float = 30.0,
    stage: str = "+r",
    views: str = "both",
) -> Gradients:
    """Raw-row gradient of mV: d_i sum_j w_ij (x_j - r y_i), w from a_ij, at +r."""
    return modified_gradient("mvicreg", z1, z2, negatives, margin, temperature, ratio, weight, stage, views)


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


# ---------------------------------------------------------------------------------------------------------
# gradients


def raw_gradient(row: Sequence[float], unit_gradient: Sequence[float]) -> Vector:
    """dL/dg = (I - hh^T)/|g| dL/dh, zero for a zero row."""
    length = norm(row)
    if length == 0.0:
        return [0.0 for _ in row]
    h = [v / length for v in row]
    radial = dot(h, unit_gradient)
    return [(u - radial * v) / length for u, v in zip(unit_gradient, h, strict=True)]


def raw_gradients(z: Rows, unit_gradients: Matrix) -> Matrix:
    """dL/dg_i = (I - h_i h_i^T)/|g_i| dL/dh_i, row by row."""
    return [raw_gradient(row, grad) for row, grad in zip(to_rows(z), unit_gradients, strict=True)]


def finite_difference(f: Callable[[Matrix, Matrix], float], z1: Rows, z2: Rows, eps: float = 1e-5) -> Gradients:
    """(f(z + eps e_ik) - f(z - eps e_ik))/(2 eps) for every entry of both views."""
    views = (to_rows(z1), to_rows(z2))
    out = []
    for view in views:
        gradient = [[0.0] * len(row) for row in view]
        for i, row in enumerate(view):
            for k, kept in enumerate(list(row)):
                row[k] = kept + eps
                above = f(*views)
                row[k] = kept - eps
                below = f(*views)
                row[k] = kept
                gradient[i][k] = (above - below) / (2.0 * eps)
        out.append(gradient)
    return out[0], out[1]


# ---------------------------------------------------------------------------------------------------------
# golden input and values


def golden_views() -> tuple[np.ndarray, np.ndarray]:
    """raw_ik = 0.4 + 0.8 sin(1+3i+2k+0.5ik), raw'_ik = raw_ik + 0.5 cos(2+i+3k), N = 5, D = 4."""
    first, second = [], []
    for i in range(5):
        row = [0.4 + 0.8 * math.sin(1 + 3 * i + 2 * k + 0.5 * i * k) for k in range(4)]
        first.append(row)
        second.append([v + 0.5 * math.cos(2 + i + 3 * k) for k, v in enumerate(row)])
    return np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)


GOLDEN_COSINES = [0.98588602, 0.70276018, 0.75066294, 0.99439124, 0.95672261]
GOLDEN_GATE = [1.0, 0.0, 1.0, 1.0, 0.0]

GOLDEN: dict[str, float] = {
    "infonce_tau0.05": 0.5988204583,
    "infonce_symmetric_tau0.05": 0.5267486693,
    "ntxent_2N_tau0.5": 1.3586666499,
    "dcl_2N_tau0.5": 1.0490398403,
    "dcl_cross_tau0.05": -4.1631901405,
    "dcl_plus_tau0.05": 0.5717154906,
    "dcl_plus_tau0.20": 0.1579244144,
    "align_alpha2": 0.2438308010,
    "align_alpha1": 0.4090640351,
    "uniform_cross_t2": -1.9521192450,
    "uniform_same_t2": -2.0122260337,
    "au_cross_alpha2_t2_lam0.5": -0.8541442220,
    "mpt_m0.23": 0.0965355637,
    "met_m0.45": 0.1492421064,
    "mat_m0.15pi": 0.1584777468,
    "arccon_u10deg_tau0.05": 1.1131983604,
    "paradigm_baseline_mean_anchors(m.3,tau.05,r1)": -0.0453198938,
    "mhe": -1.2721759935,
    "mhs_mean": -0.7147693487,
    "barlow_l2_nu0.0051": 2.4393135827,
    "barlow_bn_nu0.0051(rawinput)": 0.0951399730,
    "vicreg_official(rawinput)": 12.0155378742,
    "vicreg_official(l2)": 15.6727456779,
    "dhel_tau0.3_anchor_energy": -0.1751534107,
    "dhel_tau0.3_both_energies": 2.6198211890,
    "kcl_gaussian_t2_gamma16_oneview": 1.4515793535,
    "kcl_log_t2_gamma16_oneview": -10.4645930987,
    "kcl_imq_c2_gamma16_oneview": 12.6924511799,
    "kcl_riesz_s-1_gamma16_oneview": -18.7557159884,
    "kcl_riesz_s1_gamma16_oneview": 11.5858083910,
    "kcl_gaussian_t2_gamma16_code": 3.2213637805,
    "cloa_sum(e0,e1;labels01010;h)": 1.7869216862,
    "mMHE_value(d once)": 4.9170028506,
    "mB_sum(r1.5,paper weights)": -0.4552074360,
    "mV_sum(r1.5)": -0.1050722673,
    "mMHS_sum(r1.75)": -0.7699424735,
    "effective_rank(H)": 3.6142771438,
}

# the released DHEL and KCL code on the same input: both views, the log kernel's alignment without the half
GOLDEN_RELEASED: dict[str, float] = {
    "dhel_both": 2.6198211890,
    "dhel_anchor": -0.1751534107,
    "kcl_gaussian": 3.2213637805,
    "kcl_log": -20.2379151896,
    "kcl_imq": 25.4715665434,
    "kcl_riesz_s-1": -37.0802116831,
    "kcl_riesz_s1": 23.0007306645,
    "kcl_gaussian_riesz_s1": 30.2281004089,
}

REFERENCES: dict[str, Callable[..., float]] = {
    "infonce": infonce,
    "ntxent": ntxent,
    "dcl": dcl,
    "dclw": dclw,
    "dcl_plus": dcl_plus,
    "align_uniform": align_uniform,
    "triplet": triplet,
    "mpt": mpt,
    "met": met,
    "mat": mat,
    "arccon": arccon,
    "paradigm": paradigm,
    "mhe": mhe,
    "mhs": mhs,
    "barlow": barlow,
    "vicreg": vicreg,
    "mmhe": mmhe,
    "mmhs": mmhs,
    "mbarlow": mbarlow,
    "mvicreg": mvicreg,
    "dhel": dhel,
    "kcl": kcl,
    "debiased": debiased,
    "geodesic": geodesic,
    "hyperbolic": hyperbolic,
    "siglip": siglip,
    "spectral": spectral,
    "supcon": supcon,
}

GRADIENTS: dict[str, Callable[..., Gradients]] = {
    "paradigm": paradigm_gradient,
    "mmhe": mmhe_gradient,
    "mmhs": mmhs_gradient,
    "mbarlow": mbarlow_gradient,
    "mvicreg": mvicreg_gradient,
}


# ---------------------------------------------------------------------------------------------------------
# MixCSE's code


def mixed_with_the_next(z: Rows, mix: float) -> Matrix:
    """Raw rows are mixed, each with the next one, whatever their lengths; then scaled."""
    rows = to_rows(z)
    mixes = []
    for i, row in enumerate(rows):
        following = rows[(i + 1) % len(rows)]
        mixes.append([mix * p + (1 - mix) * q for p, q in zip(row, following, strict=True)])
    return unit_rows(mixes)


def mixcse(z1: Rows, z2: Rows, mixed: tuple[Matrix, Matrix], tau: float, extra: Rows | None = None) -> float:
    """Cross-entropy of picking z2_i among: cosines of z1_i with all z2 (and further negatives), with all mixes of z2
    but for a 0 at the one that is mostly z2_i, and of z1_i's mix with all z2 but for a 0 at the next row.

    ``mixed``: the mixes of z1 and of z2, which carry no gradient.
    """
    x, y, size = unit_rows(z1), unit_rows(z2), len(z1)
    losses = []
    for i in range(size):
        cosines = [dot(x[i], key) for key in [*y, *(unit_rows(extra) if extra is not None else [])]]
        cosines += [0.0 if (j + 1) % size == i else dot(x[i], mixed[1][j]) for j in range(size)]
        cosines += [0.0 if j == (i + 1) % size else dot(mixed[0][i], y[j]) for j in range(size)]
        losses.append(logsumexp([cosine / tau for cosine in cosines]) - cosines[i] / tau)
    return mean(losses)
