"""Three lines: what their embeddings look like when they are apart and when they are one."""

from __future__ import annotations

import pytest
import torch

from hypersphere.data.synthetic import three_lines
from hypersphere.evaluation.lines import line_accuracy, line_geometry


def test_points_on_their_own_lines_are_told_apart() -> None:
    x, _, labels = three_lines(50, noise=0.0, seed=3)
    fresh, _, classes = three_lines(50, noise=0.0, seed=3, draw=1)
    assert not torch.equal(x, fresh)
    assert line_accuracy(x, labels, fresh, classes) == 1.0
    geometry = line_geometry(fresh, classes)
    mains = [torch.nn.functional.normalize(fresh[classes == k][0], dim=0) for k in range(3)]
    largest = max(abs(float(mains[i] @ mains[j])) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert geometry["class_cosine"] == pytest.approx(largest, abs=1e-6)


def test_points_on_one_line_are_seen_to_be() -> None:
    places = torch.linspace(-1, 1, 60).unsqueeze(1)
    geometry = line_geometry(places * torch.tensor([[1.0, 2.0, 2.0]]), torch.arange(60) % 3)
    assert geometry["first_share"] == pytest.approx(1.0) and geometry["class_cosine"] == pytest.approx(1.0)
    assert geometry["effective_rank"] == pytest.approx(1.0, abs=1e-3)
