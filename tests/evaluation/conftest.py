"""What tests of several probes share."""

from __future__ import annotations

import pytest
from torch import Tensor

from hypersphere.data.images import load_images


@pytest.fixture(scope="session")
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pixels as features: training and test rows and labels."""
    train, test = load_images("digits"), load_images("digits", "test")
    return train.images.flatten(1).float(), train.labels, test.images.flatten(1).float(), test.labels
