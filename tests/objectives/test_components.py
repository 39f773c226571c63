"""Weights of the paradigm against plain loops."""

from __future__ import annotations

import pytest

import hypersphere as hs
from hypersphere.testing.example import views
from tests import reference as ref


def test_uniform_and_power_weights_against_loops() -> None:
    z1, z2 = views(6, 4)
    h, g = ref.unit_rows(z1.numpy()), ref.unit_rows(z2.numpy())
    for weight, raised in (("uniform", lambda s: 1.0), ({"name": "power", "power": 2.0}, lambda s: max(s, 1e-4) ** 2)):
        total = 0.0
        for i in range(6):
            cosines = [ref.dot(h[i], g[j]) for j in range(6) if j != i]
            weights = [raised(s) for s in cosines]
            shares = [w / sum(weights) for w in weights]
            total += sum(w * (s - ref.dot(h[i], g[i])) for w, s in zip(shares, cosines, strict=True)) / 6
        loss = hs.create_objective("paradigm", dissipation="none", weight=weight)(z1, z2).item()
        assert loss == pytest.approx(total, rel=1e-12)
