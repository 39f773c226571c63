"""Softmax objectives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.reference.vectors import (
    Labels,
    Matrix,
    Rows,
    Vector,
    angle_of,
    dot,
    logsumexp,
    mean,
    negative_cosines,
    norm,
    positive_cosines,
    softplus,
    stacked_cosines,
    to_rows,
    unit_rows,
)

BALL_EDGE = 1.0 - 1e-5
CLIP_NORM = 2.3


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
    extra_negatives: str = "first",
    pool: str = "cross",
    hardness: float = 0.0,
) -> float:
    """-log(e^{s_ii/tau}/sum_j e^{s_ij/tau}); symmetric: the mean of rows and columns, extra negatives being further
    keys of the rows, and of the columns' anchors only if extra_negatives is "both". pool "same": a_ij too; "other":
    b_ij; "back": s_ji, and the positive once more; "all": the first two; "gte": all. hardness: added to the scale of
    the negatives."""
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    others = negative_cosines(h, hp, extra)
    if hardness:
        others = [[s * (1 + hardness * temperature) for s in row] for row in others]
    if pool in ("same", "all", "gte"):
        others = [s + a for s, a in zip(others, negative_cosines(h, h, []), strict=True)]
    if pool in ("other", "all", "gte"):
        others = [s + b for s, b in zip(others, negative_cosines(hp, hp, []), strict=True)]
    if pool in ("back", "gte"):
        back = negative_cosines(hp, h, [])
        others = [[*row, *more, c] for row, more, c in zip(others, back, positive_cosines(h, hp), strict=True)]
    rows = infonce_terms(positive_cosines(h, hp), others, temperature)
    if not symmetric:
        return mean(rows)
    more = extra if extra_negatives == "both" else []
    columns = infonce_terms(positive_cosines(hp, h), negative_cosines(hp, h, more), temperature)
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
    anchors: str = "both",
) -> float:
    """-(1/|P_i|) sum_{p in P_i} log(e^{z_i.z_p/tau}/sum_{a != i} e^{z_i.z_a/tau}); in: mean inside log."""
    if form not in ("out", "in"):
        raise ValueError(f"unknown form {form!r}")
    h, hp, extra = unit_rows(z1), unit_rows(z2), unit_rows(negatives)
    n = len(h)
    z = h + hp
    classes = [-1] * n if labels is None else [int(v) for v in labels]
    out = []
    for i in range(2 * n if anchors == "both" else n):
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
