"""What a paper prints where that differs from the mathematics, against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests import reference as ref
from tests.objectives.released.batch import BATCH, gradients, value


@pytest.mark.parametrize("distance", ["dot", "euclidean", "angle", "function"])
def test_the_printed_triplet_takes_the_farthest_negative(distance: str) -> None:
    measure = {"dot": lambda c: 1 - c, "euclidean": ref.euclidean, "angle": ref.angle_of, "function": lambda c: -(c**3)}
    h, g = (ref.unit_rows(z) for z in BATCH)
    of = measure[distance]
    expected = []
    for i in range(len(h)):
        far = max(of(ref.dot(h[i], g[j])) for j in range(len(g)) if j != i)
        expected.append(max(0.0, of(ref.dot(h[i], g[i])) - far + 2.5))
    given: Any = (lambda cos: -(cos**3)) if distance == "function" else distance
    loss = value("printed/triplet", distance=given, margin=2.5)
    assert loss == pytest.approx(ref.mean(expected), rel=1e-9)


def printed_gradient(name: str, x: ref.Matrix, y: ref.Matrix, stage: str, ratio: float, nu: float) -> ref.Matrix:
    size, width, tau = len(x), len(x[0]), 0.05
    others = [[j for j in range(size) if j != i] for i in range(size)]
    gates = ref.gate(x, y, [], 0.3)
    grads = []
    for i in range(size):
        cosines = [ref.dot(x[i], x[j]) for j in others[i]]
        times = gates[i]
        if name == "mmhe":  # the energy of the batch once for every open anchor
            total = math.fsum(math.exp(ref.dot(x[k], x[m]) / tau) for k in range(size) for m in range(k))
            weights = [math.exp(c / tau) / (tau * total) for c in cosines]
            pull, times = ratio * math.fsum(weights), sum(gates)
        elif name == "mmhs":  # the farthest distance in the pull
            nearest = max(cosines)
            weights = [1 / ref.euclidean(nearest) if c == nearest else 0.0 for c in cosines]
            pull = ratio / max(ref.euclidean(c) for c in cosines)
        else:  # weights h_i·h'_j at the quadratic stages
            weights = [2 * nu * ref.dot(x[i], y[j]) / size**2 for j in others[i]]
            pull = 2 / size
        row = []
        for k in range(width):
            push = math.fsum(w * x[j][k] for w, j in zip(weights, others[i], strict=True))
            diagonal = ref.mean([x[j][k] * y[j][k] for j in range(size)])
            along = 1 - (1 - nu) * diagonal if name == "mbarlow" else 1.0
            row.append(times * push - gates[i] * pull * along * y[i][k])
        grads.append(row)
    return grads


@pytest.mark.parametrize(("name", "stage"), [("mmhe", "+r"), ("mmhs", "+r"), ("mbarlow", "+gd")])
def test_the_printed_forms_have_the_gradient_of_the_misprint(name: str, stage: str) -> None:
    h, g = (ref.unit_rows(z) for z in BATCH)
    expected = [
        ref.raw_gradients(z, printed_gradient(name, x, y, stage, 1.5, 30.0))
        for z, x, y in ((BATCH[0], h, g), (BATCH[1], g, h))
    ]
    assert 0 < sum(ref.gate(h, g, [], 0.3)) < len(h)
    params = {"stage": stage, "ratio": 1.5, "weight": 30.0}
    for grad, closed in zip(gradients(f"printed/{name}", **params), expected, strict=True):
        np.testing.assert_allclose(grad, closed, atol=1e-10)
    corrected = gradients(name, **params)
    assert max(np.abs(a - b).max() for a, b in zip(corrected, expected, strict=True)) > 1e-2
