"""Components of the paradigm on one anchor by hand, and weights against plain loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.objectives.components import DISSIPATIONS, RATIOS, WEIGHTS, Component
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


# One anchor: its positive at a cosine of 0.8, negatives at 0.6, -0.28 and a copy of the anchor that does not count.
POSITIVE = torch.tensor([0.8], dtype=torch.float64)
NEGATIVES = torch.tensor([[-0.28, 1.0, 0.6]], dtype=torch.float64)
MASK = torch.tensor([[True, False, True]])
NEAR, FAR = math.acos(0.8), math.acos(0.6)  # angles of the positive and of the nearest negative
FIRST, SECOND = math.exp(-0.28 / 0.5), math.exp(0.6 / 0.5)
VALUES: list[tuple[type[Component], dict[str, float], list[float]]] = [
    (DISSIPATIONS["none"], {}, [1]),
    (DISSIPATIONS["margin"], {"margin": 0.21}, [1]),
    (DISSIPATIONS["margin"], {"margin": 0.19}, [0]),
    (DISSIPATIONS["softmax"], {"temperature": 0.5}, [(FIRST + SECOND) / (FIRST + SECOND + math.exp(1.6))]),
    (
        DISSIPATIONS["softmax"],
        {"temperature": 0.5, "angle": 0.2},
        [(FIRST + SECOND) / (FIRST + SECOND + math.exp(2 * math.cos(NEAR + 0.2)))],
    ),
    (DISSIPATIONS["euclidean"], {"margin": 0.27}, [1]),  # sqrt(0.8) - sqrt(0.4) = 0.262
    (DISSIPATIONS["euclidean"], {"margin": 0.26}, [0]),
    (DISSIPATIONS["angle"], {"margin": 0.29}, [1]),  # 0.927 - 0.644 = 0.284
    (DISSIPATIONS["angle"], {"margin": 0.28}, [0]),
    (WEIGHTS["softmax"], {"temperature": 0.5}, [FIRST / (FIRST + SECOND), 0, SECOND / (FIRST + SECOND)]),
    (WEIGHTS["softmax"], {"temperature": 0.5, "scaled": True},
     [2 * FIRST / (FIRST + SECOND), 0, 2 * SECOND / (FIRST + SECOND)]),
    (WEIGHTS["hardest"], {}, [0, 0, 1]),
    (WEIGHTS["uniform"], {}, [0.5, 0, 0.5]),
    (WEIGHTS["power"], {"power": 2.0}, [1e-8 / (1e-8 + 0.36), 0, 0.36 / (1e-8 + 0.36)]),
    (WEIGHTS["euclidean"], {}, [0, 0, 1 / math.sqrt(0.8)]),
    (WEIGHTS["angle"], {}, [0, 0, 1 / 0.8]),
    (RATIOS["constant"], {"value": 1.5}, [1.5]),
    (RATIOS["euclidean"], {}, [math.sqrt(0.8 / 0.4)]),
    (RATIOS["angle"], {}, [0.8 / 0.6]),
    (RATIOS["arccon"], {"angle": 0.2}, [math.sin(NEAR + 0.2) / 0.6]),
]  # fmt: skip


def test_every_component_has_a_value_here() -> None:
    assert {kind for kind, _, _ in VALUES} == {*DISSIPATIONS.values(), *WEIGHTS.values(), *RATIOS.values()}


@pytest.mark.parametrize(("kind", "params", "expected"), VALUES, ids=lambda each: getattr(each, "__name__", None))
def test_a_component_is_what_its_docstring_states(
    kind: type[Component], params: dict[str, float], expected: list[float]
) -> None:
    component = kind.create(params, "paradigm")
    value = component(POSITIVE, NEGATIVES, MASK)
    assert value.flatten().tolist() == pytest.approx(expected, rel=1e-9)
    if kind in WEIGHTS.values():
        total, weighted = component.sums(POSITIVE, NEGATIVES, MASK)
        assert total.item() == pytest.approx(sum(expected))
        products = (w * s for w, s in zip(expected, NEGATIVES[0].tolist(), strict=True))
        assert weighted.item() == pytest.approx(sum(products))


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"temprature": 0.1}, "gate has no parameter 'temprature', only temperature, angle"),
        ({"temperature": "0.1"}, "gate: temperature must be like 0.05, not '0.1'"),
        ({"temperature": True}, "gate: temperature must be like 0.05, not True"),
        ({"temperature": 0}, "gate: temperature must be a number above 0, not 0"),
        ({"temperature": math.nan}, "gate: temperature must be a number, not nan"),
        ({"angle": math.inf}, "gate: angle must be a number, not inf"),
    ],
)
def test_parameters_that_cannot_be_are_refused(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        DISSIPATIONS["softmax"].create(params, "gate")
