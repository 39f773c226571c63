"""stable-pretraining's call forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests.integrations.small import losses_of_an_encoder

Stable = hs.integrations.stable_pretraining.Loss


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_anchors_against_candidates_as_in_stable_pretraining(masked: bool, scale: float | None) -> None:
    anchors, candidates = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (5, 8))
    targets = torch.tensor([2, 0, 7, 2, 1])
    mask = torch.rand(5, 8) < 0.4
    mask[torch.arange(5), targets] = False
    divisor = torch.tensor(scale or 0.07, dtype=torch.float64, requires_grad=True)
    logits = normalize(anchors) @ normalize(candidates).T / divisor
    expected = cross_entropy(logits.masked_fill(mask, -torch.inf) if masked else logits, targets)
    given: dict[str, Any] = {"mask": mask} if masked else {}
    leaves = [anchors, candidates]
    if scale is not None:
        given["logit_scale"] = divisor
        leaves.append(divisor)
    loss = Stable("infonce")(anchors, candidates, targets, **given)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)  # .07 is kept in float32
    for a, b in zip(torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-8)


def test_two_views_as_in_stable_pretraining() -> None:
    z1, z2 = (each.float() for each in views(6, 4))
    rows = normalize(torch.cat([z1, z2]))
    logits = (rows @ rows.T / 0.5).masked_fill(torch.eye(12).bool(), -torch.inf)
    expected = cross_entropy(logits, torch.arange(12).roll(6))
    assert Stable()(z1, z2).item() == pytest.approx(expected.item(), rel=1e-5)
    logits = normalize(z1) @ normalize(z2).T / 0.2
    expected = (cross_entropy(logits, torch.arange(6)) + cross_entropy(logits.T, torch.arange(6))) / 2
    clip = Stable("infonce", symmetric=True)
    assert clip(z1, z2, logit_scale=0.2).item() == pytest.approx(expected.item(), rel=1e-5)


def test_stable_pretrainings_ntxent_on_two_processes() -> None:
    z1, z2 = views(7, 4)
    expected = Stable()(z1, z2).item()
    assert workers(2).run(_part, z1, z2) == pytest.approx([expected, expected], rel=1e-12)


def _part(z1: Tensor, z2: Tensor) -> float:
    own = (slice(0, 3), slice(3, 7))[torch.distributed.get_rank()]
    value: float = Stable(gather=True)(z1[own], z2[own]).item()
    return value


def test_an_encoder_trains_with_it() -> None:
    loss, temperature = Stable("infonce"), nn.Parameter(torch.tensor(0.5))
    values = losses_of_an_encoder(
        lambda z1, z2, _: loss(z1, torch.cat([z2, z1.detach() + 1]), torch.arange(20), logit_scale=temperature),
        temperature,
    )
    assert values[-1] < values[0] and temperature.item() < 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Stable()(*views(4, 3), torch.arange(1, 5)),
            "targets must be below 4, the number of candidates, and at least 0",
        ),
        (
            lambda: Stable()(*views(4, 3), torch.arange(4), torch.eye(4).bool()),
            "mask must not be True at an anchor's own target",
        ),
        (
            lambda: Stable()(*views(4, 3), None, torch.eye(4).bool()),
            "a mask concerns anchors and candidates: give targets too",
        ),
        (
            lambda: Stable()(views(4, 3)[0], None),
            r"candidates must be the rows \(N, D\) of the positives, not NoneType",
        ),
        (lambda: Stable()(None, views(4, 3)[0]), r"anchors must be rows \(N, D\), not NoneType"),
        (lambda: Stable()(*views(4, 3), torch.arange(4), [True]), "mask must be 4 × 4 booleans, not list"),
        (lambda: Stable(learnable=True), "Loss takes no learnable"),
        (lambda: Stable()(*views(4, 3), [0, 1, 2, 3]), "targets must be a tensor of 4 whole numbers, not list"),
    ],
)
def test_bad_input_gets_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
