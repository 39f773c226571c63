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


@pytest.mark.parametrize("form", ["out", "in"])
def test_one_labelled_view_by_loops(form: str) -> None:
    """An anchor alone in its class, or without a label, has no positive and counts as 0."""
    z, labels = views(9, 5)[0], [0, 0, 0, 1, 1, 2, 3, 3, -1]
    h, losses = torch.nn.functional.normalize(z), []
    for i, own in enumerate(labels):
        logits = {j: (h[i] @ h[j]).item() / 0.2 for j in range(9) if j != i}
        total = math.log(sum(math.exp(logit) for logit in logits.values()))
        positives = [logits[j] for j in logits if labels[j] == own >= 0]
        if form == "out":
            losses.append(sum(total - logit for logit in positives) / max(1, len(positives)))
        else:
            mean = sum(math.exp(logit - total) for logit in positives) / max(1, len(positives))
            losses.append(-math.log(mean) if positives else 0.0)
    objective = hs.create_objective("supcon", form=form, temperature=0.2)
    for context in (hs.dense(), hs.streaming(4)):
        rows = z.clone().requires_grad_()
        with context:
            loss = objective(rows, labels=torch.tensor(labels))
        assert loss.item() == pytest.approx(sum(losses) / 9, rel=1e-12)
        (grad,) = torch.autograd.grad(loss, rows)
        step = torch.zeros_like(z).index_put_((torch.tensor(3), torch.tensor(1)), torch.tensor(1e-6, dtype=z.dtype))
        ends = [objective(z + sign * step, labels=torch.tensor(labels)).item() for sign in (1, -1)]
        assert grad[3, 1].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_one_labelled_view_equals_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.losses import SupConLoss

    z, labels = views(12, 8)[0].float(), torch.arange(12) % 3
    peer = SupConLoss(temperature=0.2)(z, labels).item()
    assert hs.create_objective("supcon", temperature=0.2)(z, labels=labels).item() == pytest.approx(peer, rel=1e-5)


def test_one_view_needs_labels_and_an_objective_for_it() -> None:
    z = views(4, 3)[0]
    with pytest.raises(ValueError, match="supcon of one view needs labels"):
        hs.create_objective("supcon")(z)
    with pytest.raises(ValueError, match="mixup needs two views"):
        hs.create_objective("mixup", base="supcon")(z, labels=torch.arange(4))
    with pytest.raises(ValueError, match="z2 must be a tensor, not NoneType: row i of z2 is the positive"):
        hs.create_objective("infonce")(z, labels=torch.arange(4))
