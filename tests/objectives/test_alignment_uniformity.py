"""Uniformity against its golden value."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hypersphere as hs
from tests import reference as ref


def test_golden_uniformity_is_that_of_the_first_view() -> None:
    z1, _ = (torch.as_tensor(np.asarray(z), dtype=torch.float64) for z in ref.golden_views())
    value = hs.create_objective("align_uniform", weight=1.0)(z1, z1).item()
    assert value == pytest.approx(ref.GOLDEN["uniform_same_t2"], abs=1e-9)
