"""Uniformity of the released code (Nie et al.), with 2t added."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import reference as ref
from tests.objectives.released.batch import BATCH, gradients, value


def test_released_uniformity_has_two_t_more_and_the_same_gradient() -> None:
    params = {"alpha": 2.0, "t": 6.0, "weight": 0.3}
    h, g = (ref.unit_rows(z) for z in BATCH)
    potentials = []
    for view in (h, g):
        pairs = [ref.squared_distance(ref.dot(view[i], view[j])) for i in range(len(view)) for j in range(i)]
        potentials.append(math.log(ref.mean([math.exp(-6.0 * q) for q in pairs])))
    alignment = ref.mean([ref.squared_distance(ref.dot(a, b)) for a, b in zip(h, g, strict=True)])
    expected = 0.7 * alignment + 0.3 * (12.0 + ref.mean(potentials))
    assert value("released/align_uniform", **params) == pytest.approx(expected, rel=1e-9)
    for one, two in zip(
        gradients("released/align_uniform", **params), gradients("align_uniform", **params), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=1e-13)
