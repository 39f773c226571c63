"""KCL of the released code (Koromilas et al.): the logarithmic kernel of the alignment."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import reference as ref
from tests.objectives.released.batch import BATCH, gradients, value


def test_the_released_log_kernel_aligns_without_the_half() -> None:
    h, g = (ref.unit_rows(z) for z in BATCH)
    alignment = ref.mean([math.log1p(2 * ref.squared_distance(ref.dot(a, b))) for a, b in zip(h, g, strict=True)])
    pairs = [ref.squared_distance(ref.dot(h[i], h[j])) for i in range(len(h)) for j in range(i)]
    energy = -0.5 * ref.mean([math.log1p(2 * q) for q in pairs])
    loss = value("released/kcl", kernel="log")
    assert loss == pytest.approx(alignment + 16 * energy, rel=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "imq", "gaussian_riesz"])
def test_every_other_released_kernel_is_that_of_the_paper(kernel: str) -> None:
    params = {"kernel": kernel, "gamma": 3.0}
    assert value("released/kcl", **params) == value("kcl", **params)
    for one, two in zip(gradients("released/kcl", **params), gradients("kcl", **params), strict=True):
        np.testing.assert_array_equal(one, two)
