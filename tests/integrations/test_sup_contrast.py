"""SupContrast's call form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests.integrations.small import losses_of_an_encoder

SupContrast = hs.integrations.sup_contrast.Loss


def sup_contrast(features: Tensor, same: Tensor, mode: str, temperature: float, base: float) -> Tensor:
    """SupConLoss by loops over anchors; row v·N + i is view v of instance i."""
    number, count, _ = features.shape
    rows, losses = torch.cat(features.unbind(dim=1)), []
    for a in range(number * (count if mode == "all" else 1)):
        others = [k for k in range(number * count) if k != a]
        logits = {k: rows[a] @ rows[k] / temperature for k in others}
        total = torch.logsumexp(torch.stack(list(logits.values())), dim=0)
        positives = [total - logits[k] for k in others if same[a % number, k % number]]
        losses.append(torch.stack(positives).mean() if positives else total * 0)
    return torch.stack(losses).mean() * temperature / base


@pytest.mark.parametrize("known", ["labels", "mask", "neither"])
@pytest.mark.parametrize(("count", "mode"), [(1, "all"), (1, "one"), (2, "all"), (2, "one"), (3, "all"), (4, "all")])
def test_supcontrast_by_loops(count: int, mode: str, known: str) -> None:
    labels = torch.tensor([0, 1, 1, 2, 0])
    if known == "neither" and count == 1:
        return  # refused: see below
    same = torch.eye(5).bool() if known == "neither" else labels.unsqueeze(1) == labels
    raw = torch.stack([views(5, 4)[0].roll(step, 0) + step for step in range(count)], dim=1).requires_grad_()
    given = {"labels": {"labels": labels.unsqueeze(1)}, "mask": {"mask": same.float()}, "neither": {}}[known]
    features = normalize(raw, dim=2)
    loss = SupContrast(temperature=0.2, contrast_mode=mode, base_temperature=0.1)(features, **given)
    expected = sup_contrast(features, same, mode, 0.2, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    (ours,), (theirs,) = (torch.autograd.grad(each, raw, retain_graph=True) for each in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_an_unknown_label_leaves_the_other_views() -> None:
    features = torch.randn(4, 3, 5)
    unknown = SupContrast()(features, torch.tensor([-1, -1, 5, 5]))
    apart = SupContrast()(features, torch.tensor([0, 1, 5, 5]))
    assert unknown.item() == apart.item()


def test_an_encoder_trains_with_it() -> None:
    loss = SupContrast()
    values = losses_of_an_encoder(lambda z1, z2, labels: loss(torch.stack([z1, z2], dim=1), labels))
    assert values[-1] < values[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SupContrast()(torch.ones(3, 4)), r"features must be \(N, V, D\), rows of V views"),
        (lambda: SupContrast()(torch.rand(3, 1, 4)), "supcon of one view needs labels"),
        (
            lambda: SupContrast()(torch.rand(3, 2, 4), mask=torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]])),
            "mask must be that of classes",
        ),
        (
            lambda: SupContrast()(torch.rand(3, 2, 4), torch.arange(3), torch.eye(3)),
            "give labels or a mask, not both",
        ),
        (
            lambda: SupContrast(contrast_mode="one")(torch.rand(3, 3, 4)),
            "contrast_mode 'one' takes one or two views, not 3",
        ),
        (
            lambda: SupContrast(gather=True)(torch.rand(3, 3, 4)),
            "gather takes one or two views, not 3",
        ),
        (
            lambda: SupContrast(contrast_mode="two"),
            "contrast_mode must be 'all' or 'one', not 'two'",
        ),
        (lambda: SupContrast()([torch.rand(3, 4)]), r"features must be \(N, V, D\), rows of V views, not list"),
        (lambda: SupContrast()(torch.rand(3, 2, 4), [0, 1, 1]), "labels must be a tensor .* whole numbers, not list"),
        (lambda: SupContrast()(torch.rand(3, 2, 4), mask=[[1]]), r"mask must be a tensor \(N, N\), not list"),
    ],
)
def test_bad_input_gets_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("mode", ["all", "one"])
def test_two_processes_are_one_with_the_whole_batch(mode: str) -> None:
    features, labels = torch.stack(views(7, 4), dim=1).requires_grad_(), torch.tensor([0, 1, 0, 2, 1, 1, 2])
    expected = SupContrast(contrast_mode=mode)(features, labels)
    (grad,) = torch.autograd.grad(expected, [features])
    by_rank = workers(2).run(_part, mode, features.detach(), labels)
    assert [value for value, _ in by_rank] == pytest.approx([expected.item()] * 2, rel=1e-12)
    torch.testing.assert_close(torch.cat([each for _, each in by_rank]) / 2, grad, rtol=1e-9, atol=1e-11)


def _part(mode: str, features: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    own = (slice(0, 3), slice(3, 7))[torch.distributed.get_rank()]
    rows = features[own].clone().requires_grad_()
    loss = SupContrast(contrast_mode=mode, gather=True)(rows, labels[own])
    return loss.item(), torch.autograd.grad(loss, [rows])[0]
