"""SupCon without labels, with labels of one class, and beside its peer."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views


def test_supcon_without_labels_is_ntxent() -> None:
    z1, z2 = views(6, 4)
    ntxent = hs.create_objective("ntxent", temperature=0.1)(z1, z2).item()
    for form in ("out", "in"):
        assert hs.create_objective("supcon", form=form)(z1, z2).item() == pytest.approx(ntxent, rel=1e-12)


def test_supcon_equals_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.losses import SupConLoss

    z1, z2 = (z.float() for z in views(16, 8))
    labels = torch.arange(16) % 3
    peer = SupConLoss(temperature=0.2)(torch.cat([z1, z2]), torch.cat([labels, labels])).item()
    ours = hs.create_objective("supcon", temperature=0.2)(z1, z2, labels).item()
    assert ours == pytest.approx(peer, rel=1e-5)


@pytest.mark.filterwarnings("ignore:a batch of one row")
def test_labels_that_leave_no_negative_leave_the_softmax_among_positives() -> None:
    """All of one class: every other row is a positive of SupCon, and the mix with a negative finds none."""
    z = torch.eye(3, dtype=torch.float64)
    labels = torch.zeros(3, dtype=torch.int64)
    for context in (hs.dense(), hs.streaming(1)):
        with context:
            loss = hs.create_objective("supcon", temperature=1.0)(z, z, labels).item()
            mixed = hs.create_objective("mixup", base={"name": "supcon", "temperature": 1.0})(z, z, labels).item()
        # Five keys: the own other view at cosine 1, four at cosine 0; the mean over all five as positives.
        assert loss == pytest.approx(math.log(math.e + 4) - 1 / 5, rel=1e-12)
        assert mixed == pytest.approx(loss, rel=1e-12)
