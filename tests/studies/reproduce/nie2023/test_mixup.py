"""The mixed loss of one anchor is that of the objective."""

import pytest

import hypersphere as hs
from hypersphere.studies.reproduce.li2024.comparison import random_views
from hypersphere.studies.reproduce.nie2023.mixup import mixed_loss


def test_mixed_loss_is_that_of_the_objective():
    """One mix for each anchor, of its positive and the next instance's vector."""
    z1, z2 = random_views(5, 4)
    loss = hs.create_objective("mixup", base={"name": "infonce", "temperature": 0.2}, kind="positive", reduction="none")
    values = loss(z1, z2)
    for i in range(5):
        others = z2[[j for j in range(5) if j != i]]
        mixed = (0.2 * z2[i] + 0.8 * z2[(i + 1) % 5]).unsqueeze(0)
        assert mixed_loss(z1[i], z2[i], others, mixed, 0.2) == pytest.approx(values[i].item(), rel=1e-9)
