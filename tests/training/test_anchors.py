"""What the anchors of a batch have of their pairs and of the objective, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.training.monitor import measure
from tests.training.worlds import views


def test_geometry_equals_plain_loops() -> None:
    z1, z2 = views()
    measurement = measure(hs.create_objective("infonce"), z1, z2)
    h, other = ([row / np.linalg.norm(row) for row in z.double().numpy()] for z in (z1, z2))
    size = len(h)
    positive = [float(h[i] @ other[i]) for i in range(size)]
    negative = [float(h[i] @ other[j]) for i in range(size) for j in range(size) if i != j]
    gaps, hardest = [], []
    for i in range(size):
        far = [float(np.linalg.norm(h[i] - other[j])) for j in range(size) if j != i]
        gaps.append(sum(far) / len(far) - float(np.linalg.norm(h[i] - other[i])))
        hardest.append(positive[i] - max(float(h[i] @ other[j]) for j in range(size) if j != i))
    expected = {
        "positive_cosine": np.mean(positive),
        "positive_spread": np.std(positive),
        "negative_cosine": np.mean(negative),
        "negative_spread": np.std(negative),
        "negative_absolute": np.mean(np.abs(negative)),
        "gap": np.mean(gaps),
        "gap_10": np.quantile(gaps, 0.1),
        "gap_90": np.quantile(gaps, 0.9),
        "hardest_gap": np.mean(hardest),
        "hardest_gap_50": np.quantile(hardest, 0.5),
        "infonce": np.mean(
            [math.log(sum(math.exp(h[i] @ o / 0.05) for o in other)) - h[i] @ other[i] / 0.05 for i in range(size)]
        ),
        "embedding_norm": np.mean([np.linalg.norm(row) for row in z1.numpy()]),
    }
    for name, value in expected.items():
        assert getattr(measurement, name) == pytest.approx(value, abs=2e-5), name


def test_angles_equal_plain_loops() -> None:
    z1, z2 = views()
    measurement = measure(hs.create_objective("infonce"), z1, z2)
    h, other = ([row / np.linalg.norm(row) for row in z.double().numpy()] for z in (z1, z2))
    angles = {(i, j): math.acos(h[i] @ other[j]) for i in range(len(h)) for j in range(len(h))}
    positive = [value for (i, j), value in angles.items() if i == j]
    negative = [value for (i, j), value in angles.items() if i != j]
    for name, values in (("positive", positive), ("negative", negative)):
        assert getattr(measurement, f"{name}_angle") == pytest.approx(np.mean(values), abs=1e-5)
        assert getattr(measurement, f"{name}_angle_spread") == pytest.approx(np.std(values), abs=1e-5)
    turn = 1e-5  # whose cosine is 1 in float32
    plane = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    turned = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    close = measure(hs.create_objective("infonce"), plane, turned)
    assert close.positive_angle == pytest.approx(turn, rel=1e-3)


def test_the_share_with_gradient_counts_open_gates() -> None:
    z1, z2 = views(40)
    h, other = (nn.functional.normalize(z, dim=1) for z in (z1, z2))
    cosine = h @ other.T
    inside = cosine.diagonal() - (cosine - 9 * torch.eye(40)).amax(dim=1) < 0.23
    measurement = measure(hs.create_objective("mpt", margin=0.23), z1, z2)
    assert 0 < inside.float().mean() < 1
    assert measurement.with_gradient == pytest.approx(inside.float().mean().item())
    assert measurement.dissipation == pytest.approx(measurement.with_gradient)
    assert measurement.hardest_weight == 1.0
    assert measurement.ratio == pytest.approx(1.0)


def test_infonce_dissipates_by_its_own_probability() -> None:
    z1, z2 = views(40)
    cosine = nn.functional.normalize(z1, dim=1) @ nn.functional.normalize(z2, dim=1).T
    missing = 1 - torch.softmax(cosine / 0.05, dim=1).diagonal()
    measurement = measure(hs.create_objective("infonce"), z1, z2)
    assert measurement.dissipation == pytest.approx(missing.mean().item(), abs=1e-5)
    assert measurement.with_gradient == pytest.approx((missing >= 0.01).float().mean().item())
