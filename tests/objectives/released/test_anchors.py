"""CLOA (Li & Pimentel-Alarcón): a sum in the paper, no constant in the code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from tests import reference as ref
from tests.objectives.released.batch import BATCH


@pytest.mark.parametrize("labels", [[0, 1, 0, -1, 1, 0, -1], [-1] * 7])
def test_cloa_as_a_sum_and_without_its_constant(labels: Sequence[int]) -> None:
    def pull(name: str, **params: Any) -> Tensor:
        objective = hs.create_objective(name, num_classes=2, dim=4, weight=0.5, **params)
        return objective.terms(*BATCH, torch.tensor(labels))["anchors"]

    anchors = ref.to_rows(hs.create_objective("cloa", num_classes=2, dim=4).anchors.double())
    cosines = [
        ref.dot(row, anchors[label])
        for z in BATCH
        for row, label in zip(ref.unit_rows(z), labels, strict=True)
        if label >= 0
    ]
    assert pull("cloa", reduction="sum").item() == pytest.approx(0.5 * math.fsum(1 - c for c in cosines), abs=1e-6)
    expected = -0.5 * ref.mean(cosines) if cosines else 0.0
    assert pull("released/cloa").item() == pytest.approx(expected, abs=1e-6)
