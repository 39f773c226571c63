"""Mixed negatives on bases of every kind, against plain loops: two matrices, detached weights, another space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.testing.example import views
from tests import cases
from tests import reference as ref
from tests.cases import MIXABLE

LABELS = [0, 1, -1, 0, 1, 1]
KINDS = list(itertools.product(["negatives", "positive"], [False, True]))
Similarity = Callable[[Sequence[float], Sequence[float]], float]


def hardest(i: int, row: ref.Vector, keys: ref.Matrix, similarity: Similarity = ref.dot) -> tuple[int, int]:
    """The two instances other than i whose keys are most similar to the row."""
    others = sorted((j for j in range(len(keys)) if j != i), key=lambda j: -similarity(row, keys[j]))
    return others[0], others[1]


def blend(mix: float, a: ref.Vector, b: ref.Vector, length: Callable[[ref.Vector], float] | None) -> ref.Vector:
    vector = [mix * p + (1 - mix) * q for p, q in zip(a, b, strict=True)]
    size = length(vector) if length else 1.0
    return [v / size for v in vector]


def mixtures(
    x: ref.Matrix, y: ref.Matrix, first: ref.Matrix, kind: str, mix: float, unit: bool
) -> tuple[ref.Matrix, ref.Matrix, ref.Matrix]:
    """By anchor x_i: its mix among x, its mix among y, and the mix among y of its other view y_i.

    ``first``: where its two hardest negatives are looked for.
    """
    length = ref.norm if unit else None
    same, cross, other = [], [], []
    for i in range(len(x)):
        a, b = hardest(i, x[i], first)
        k = (i + 1) % len(x)
        if kind == "negatives":
            same.append(blend(mix, x[a], x[b], length))
            cross.append(blend(mix, y[a], y[b], length))
            other.append(cross[i])
        else:
            same.append(blend(mix, y[i], x[k], length))
            cross.append(blend(mix, y[i], y[k], length))
            other.append(blend(mix, x[i], y[k], length))
    return same, cross, other


def gradients(objective: Any, z1: Tensor, z2: Tensor, labels: Tensor | None = None) -> list[np.ndarray]:
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    objective(a, b, labels).backward()
    return [a.grad.numpy(), b.grad.numpy()]


# ---------------------------------------------------------------------------------------------------------
# two matrices: dhel with the energy of both views


def dhel(z1: ref.Rows, z2: ref.Rows, mixes: tuple[ref.Matrix, ...], tau: float = 0.3) -> float:
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    same, _, other = mixes
    losses = []
    for i in range(len(x)):
        energies = [
            ref.logsumexp([ref.dot(v[i], k) / tau for k in [*(v[j] for j in range(len(v)) if j != i), m[i]]])
            for v, m in ((x, same), (y, other))
        ]
        losses.append(-ref.dot(x[i], y[i]) / tau + sum(energies))
    return ref.mean(losses)


@pytest.mark.parametrize(("kind", "normalize"), KINDS)
def test_dhel_of_both_views_has_a_mix_in_either_energy(kind: str, normalize: bool) -> None:
    z1, z2 = views(6, 4)
    objective = hs.create_objective(
        "mixup", base={"name": "dhel", "energy": "both"}, kind=kind, mix=0.3, normalize=normalize
    )
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    mixes = mixtures(x, y, x, kind, 0.3, normalize)
    assert objective(z1, z2).item() == pytest.approx(dhel(z1, z2, mixes), rel=1e-12)
    expected = ref.finite_difference(lambda a, b: dhel(a, b, mixes), z1.numpy(), z2.numpy())
    for grad, difference in zip(gradients(objective, z1, z2), expected, strict=True):
        np.testing.assert_allclose(grad, difference, atol=1e-8)


# ---------------------------------------------------------------------------------------------------------
# detached weights from one matrix, vectors of another, gates from a third: mbarlow


def mbarlow_turn(
    x: ref.Matrix, y: ref.Matrix, stage: str, kind: str, unit: bool, mix: float = 0.3
) -> tuple[float, ref.Matrix]:
    """Value and gradient in the anchors x: d_i (Σ_j W_ij x_j + W_i mix_i - P_i y_i)."""
    size, width = len(x), len(x[0])
    same, cross, other = mixtures(x, y, x, kind, mix, unit)
    late = stage == "+r"

    def closeness(i: int, j: int | None) -> float:
        """What the weight of negative j (None: the mix) is made of."""
        if late:
            return math.exp(ref.dot(x[i], cross[i] if j is None else y[j]) / 0.05)
        return ref.dot(y[i], other[i] if j is None else y[j])

    columns = [[*(j for j in range(size) if j != i), None] for i in range(size)]
    total = math.fsum(closeness(i, j) for i in range(size) for j in columns[i])
    value, grads = 0.0, []
    pull = [1 - (1 - 30.0) * ref.mean([x[i][k] * y[i][k] for i in range(size)]) for k in range(width)]
    for i in range(size):
        weights = [closeness(i, j) * (1 / total if late else 2 * 30.0 / size**2) for j in columns[i]]
        vectors = [same[i] if j is None else x[j] for j in columns[i]]
        factor = 1.5 * math.fsum(weights) if late else 2 / size
        target = [factor * y[i][k] * (1 if late else pull[k]) for k in range(width)]
        nearest = max(ref.dot(x[i], cross[i] if j is None else y[j]) for j in columns[i])
        gate = 1.0 if not late or ref.dot(x[i], y[i]) - nearest < 0.3 else 0.0
        grad = [
            gate * (math.fsum(w * v[k] for w, v in zip(weights, vectors, strict=True)) - target[k])
            for k in range(width)
        ]
        grads.append(grad)
        value += ref.dot(x[i], grad)
    return value, grads


@pytest.mark.parametrize(("kind", "normalize"), KINDS)
@pytest.mark.parametrize("stage", ["original", "+r"])
def test_mbarlow_weighs_gates_and_moves_by_the_same_mixed_instance(stage: str, kind: str, normalize: bool) -> None:
    z1, z2 = views(6, 5)
    base = {"name": "mbarlow", "stage": stage}
    objective = hs.create_objective("mixup", base=base, kind=kind, mix=0.3, normalize=normalize)
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    (one, in_x), (two, in_y) = (mbarlow_turn(a, b, stage, kind, normalize) for a, b in ((x, y), (y, x)))
    assert objective(z1, z2).item() == pytest.approx(one + two, rel=1e-11)
    expected = ref.raw_gradients(z1, in_x), ref.raw_gradients(z2, in_y)
    for grad, closed in zip(gradients(objective, z1, z2), expected, strict=True):
        np.testing.assert_allclose(grad, closed, atol=1e-11)


# ---------------------------------------------------------------------------------------------------------
# another space: hyperbolic


def hyperboloid(z: ref.Rows, curvature: float) -> ref.Matrix:
    """(cosh 2ρ, sinh 2ρ · direction), ρ = √c ‖z‖, ‖z‖ at most 2.3."""
    points = []
    for row in ref.to_rows(z):
        length = ref.norm(row)
        rho = math.sqrt(curvature) * min(length, 2.3)
        points.append([math.cosh(2 * rho), *(math.sinh(2 * rho) * v / length for v in row)])
    return points


def lorentz(p: Sequence[float], q: Sequence[float]) -> float:
    return ref.dot(p[1:], q[1:]) - p[0] * q[0]


def softmax_losses(x: ref.Matrix, y: ref.Matrix, mixed: ref.Matrix, similarity: Similarity, tau: float) -> float:
    losses = []
    for i in range(len(x)):
        logits = [similarity(x[i], key) / tau for key in [*y, mixed[i]]]
        losses.append(ref.logsumexp(logits) - logits[i])
    return ref.mean(losses)


@pytest.mark.parametrize(("kind", "normalize"), KINDS)
def test_hyperbolic_mixes_on_the_sphere_and_on_the_hyperboloid(kind: str, normalize: bool) -> None:
    z1, z2 = views(6, 4)
    curvature, mix, size = 0.5, 0.3, 6
    base = {"name": "hyperbolic", "curvature": curvature, "weight": 0.7, "temperature": 0.5}
    objective = hs.create_objective("mixup", base=base, kind=kind, mix=mix, normalize=normalize)
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    on_sphere = mixtures(x, y, y, kind, mix, normalize)[1]
    p, q = hyperboloid(z1, curvature), hyperboloid(z2, curvature)
    pairs = [hardest(i, p[i], q, lorentz) if kind == "negatives" else (i, (i + 1) % size) for i in range(size)]
    length = (lambda v: math.sqrt(-lorentz(v, v))) if normalize else None
    in_ball = [blend(mix, q[a], q[b], length) for a, b in pairs]

    def nearness(a: Sequence[float], b: Sequence[float]) -> float:
        return -math.acosh(-lorentz(a, b)) / math.sqrt(curvature)

    def value(a: ref.Rows, b: ref.Rows) -> float:
        ball = softmax_losses(hyperboloid(a, curvature), hyperboloid(b, curvature), in_ball, nearness, 0.5)
        return softmax_losses(ref.unit_rows(a), ref.unit_rows(b), on_sphere, ref.dot, 0.5) + 0.7 * ball

    assert objective(z1, z2).item() == pytest.approx(value(z1, z2), rel=1e-11)
    expected = ref.finite_difference(value, z1.numpy(), z2.numpy())
    for grad, difference in zip(gradients(objective, z1, z2), expected, strict=True):
        np.testing.assert_allclose(grad, difference, atol=1e-7)


# ---------------------------------------------------------------------------------------------------------
# views exchanged: the released triplets


DISTANCES: dict[str, Callable[[float], float]] = {"mpt": lambda c: -c, "met": ref.euclidean, "mat": ref.angle_of}


def released(name: str, z1: ref.Rows, z2: ref.Rows, mixed: ref.Matrix | None, margin: float) -> float:
    """Rows of the second view against those of the first and one mix each; a blank of cosine 0 except in met."""
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    losses = []
    for i, anchor in enumerate(y):
        cosines = [ref.dot(anchor, x[j]) for j in range(len(x)) if j != i]
        cosines += [0.0] * (name != "met") + ([ref.dot(anchor, mixed[i])] if mixed else [])
        distance = DISTANCES[name]
        losses.append(max(0.0, margin + distance(ref.dot(anchor, x[i])) - min(map(distance, cosines))))
    return ref.mean(losses)


@pytest.mark.parametrize("context", [hs.dense, lambda: hs.streaming(2)], ids=["dense", "streaming"])
@pytest.mark.parametrize("name", DISTANCES)
def test_released_triplets_stay_released(name: str, context: Any) -> None:
    z1, z2 = views(6, 4)
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    base = {"name": f"released/{name}", "margin": 1.5}
    for kind, normalize in KINDS:
        objective = hs.create_objective("mixup", base=base, kind=kind, mix=0.7, normalize=normalize)
        mixed = mixtures(y, x, x, kind, 0.7, normalize)[1]
        with context():
            loss, grads = objective(z1, z2).item(), gradients(objective, z1, z2)
        assert loss == pytest.approx(released(name, z1, z2, mixed, 1.5), rel=1e-11)
        for grad, difference in zip(
            grads,
            ref.finite_difference(lambda a, b, m=mixed: released(name, a, b, m, 1.5), z1.numpy(), z2.numpy()),
            strict=True,
        ):
            np.testing.assert_allclose(grad, difference, atol=1e-7)
    harmless = hs.create_objective("mixup", base=base, mix=1.0)  # the hardest negative once more
    with context():
        assert harmless(z1, z2).item() == pytest.approx(released(name, z1, z2, None, 1.5), rel=1e-12)
    paper = hs.create_objective("mixup", base={"name": name, "margin": 1.5}, mix=1.0)
    assert paper(z1, z2).item() != pytest.approx(harmless(z1, z2).item(), rel=1e-3)


# ---------------------------------------------------------------------------------------------------------
# several positives: supcon, which mixes no rows of the anchor's own label


def related(labels: Sequence[int], i: int, j: int) -> bool:
    return i == j or (labels[i] == labels[j] and labels[i] >= 0)


def mix_without_relatives(
    i: int, x: ref.Matrix, y: ref.Matrix, labels: Sequence[int], kind: str, mix: float, unit: bool
) -> ref.Vector | None:
    """The mix of anchor x_i, or None if every instance has its label."""
    length = ref.norm if unit else None
    others = [(i + step) % len(x) for step in range(1, len(x)) if not related(labels, i, (i + step) % len(x))]
    if not others:
        return None
    if kind == "positive":
        return blend(mix, y[i], y[others[0]], length)
    first, second = sorted([v[j] for v in (y, x) for j in others], key=lambda v: -ref.dot(x[i], v))[:2]
    return blend(mix, first, second, length)


def supcon(
    z1: ref.Rows, z2: ref.Rows, labels: Sequence[int], mixes: list[list[ref.Vector | None]], form: str, tau: float = 0.3
) -> float:
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    losses = []
    for (x, y), mixed in zip(((h, g), (g, h)), mixes, strict=True):
        for i, anchor in enumerate(x):
            rows = [(j, ref.dot(anchor, v[j]) / tau) for v in (y, x) for j in range(len(x)) if v is y or j != i]
            positives = [logit for j, logit in rows if related(labels, i, j)]
            extra = mixed[i]
            total = [logit for _, logit in rows] + ([] if extra is None else [ref.dot(anchor, extra) / tau])
            pull = ref.mean(positives) if form == "out" else ref.logsumexp(positives) - math.log(len(positives))
            losses.append(ref.logsumexp(total) - pull)
    return ref.mean(losses)


@pytest.mark.parametrize("labels", [LABELS, [0, 0, 0, 1, 1, -1], [0, 0, 0, 0, 0, 1], [2] * 6, [-1] * 6])
@pytest.mark.parametrize(("kind", "normalize"), KINDS)
@pytest.mark.parametrize("form", ["out", "in"])
def test_supcon_mixes_no_positives(form: str, kind: str, normalize: bool, labels: list[int]) -> None:
    z1, z2 = views(6, 4)
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    mixes = [
        [mix_without_relatives(i, x, y, labels, kind, 0.3, normalize) for i in range(6)] for x, y in ((h, g), (g, h))
    ]
    base = {"name": "supcon", "form": form, "temperature": 0.3}
    objective = hs.create_objective("mixup", base=base, kind=kind, mix=0.3, normalize=normalize)
    expected = ref.finite_difference(lambda a, b: supcon(a, b, labels, mixes, form), z1.numpy(), z2.numpy())
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            loss, grads = objective(z1, z2, torch.tensor(labels)), gradients(objective, z1, z2, torch.tensor(labels))
        assert loss.item() == pytest.approx(supcon(z1, z2, labels, mixes, form), rel=1e-11)
        for grad, difference in zip(grads, expected, strict=True):
            np.testing.assert_allclose(grad, difference, atol=1e-8)
    if len(set(labels)) == 1 and labels[0] >= 0:  # nothing to mix
        plain = hs.create_objective(**base)(z1, z2, torch.tensor(labels))
        assert loss.item() == pytest.approx(plain.item(), rel=1e-12)


@pytest.mark.parametrize("kind", ["negatives", "positive"])
def test_supcon_mixes_over_processes_as_on_one(kind: str) -> None:
    hs.testing.assert_distributed_exact(hs.create_objective("mixup", base="supcon", kind=kind), world_size=2)


@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_an_only_negative_is_mixed_with_itself(mix: float) -> None:
    z1, z2 = views(2, 4)
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    expected = softmax_losses(x, y, [y[1], y[0]], ref.dot, 0.05)
    assert hs.create_objective("mixup", mix=mix)(z1, z2).item() == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------------------------------------------------
# a wrapper: cloa, both ways round


@pytest.mark.parametrize(("kind", "normalize"), KINDS)
def test_cloa_inside_mixup_is_cloa_around_it(kind: str, normalize: bool) -> None:
    z1, z2 = views(6, 4)
    labels = torch.tensor(LABELS)
    how = {"kind": kind, "mix": 0.3, "normalize": normalize}
    anchors = {"num_classes": 2, "dim": 4, "weight": 0.5}
    inside = hs.create_objective("mixup", base={"name": "cloa", "base": "infonce", **anchors}, **how)
    around = hs.create_objective("cloa", base={"name": "mixup", "base": "infonce", **how}, **anchors)
    x, y = ref.unit_rows(z1), ref.unit_rows(z2)
    mixed = mixtures(x, y, y, kind, 0.3, normalize)[1]
    pull = ref.cloa_term(around.anchors.double().numpy(), LABELS, z1.numpy(), z2.numpy())
    expected = softmax_losses(x, y, mixed, ref.dot, 0.05) + 0.5 * pull
    for objective in (inside, around):
        assert objective(z1, z2, labels).item() == pytest.approx(expected, rel=1e-6)  # anchors are kept in float32
    for one, two in zip(gradients(inside, z1, z2, labels), gradients(around, z1, z2, labels), strict=True):
        np.testing.assert_array_equal(one, two)


# ---------------------------------------------------------------------------------------------------------
# every base


@pytest.mark.parametrize("name", ["cloa", *MIXABLE])
def test_every_objective_with_negatives_minds_a_mix_that_is_nearly_the_positive(name: str) -> None:
    base = {"name": name, **cases.settings_of(name, 2, 4)}
    z1, z2 = views(6, 4)
    plain, mixed = (
        gradients(objective, z1, z2, torch.tensor(LABELS))
        for objective in (
            hs.create_objective(**base),
            hs.create_objective("mixup", base=base, kind="positive", mix=0.9),
        )
    )
    assert max(np.abs(a - b).max() for a, b in zip(plain, mixed, strict=True)) > 1e-4
