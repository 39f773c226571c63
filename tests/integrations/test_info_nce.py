"""info-nce-pytorch's call form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from info_nce import InfoNCE

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests.integrations.small import losses_of_an_encoder

Own = hs.integrations.info_nce.Loss


@pytest.mark.parametrize("mode", ["paired", "unpaired", None])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_info_nce_equals_the_peer(mode: str | None, reduction: str) -> None:
    query, key = (each.requires_grad_() for each in views(6, 4))
    shape = {"paired": (6, 3, 4), "unpaired": (5, 4)}.get(mode or "")
    negatives = [] if shape is None else [torch.rand(shape, dtype=torch.float64, requires_grad=True)]
    settings: dict[str, Any] = {"negative_mode": mode or "unpaired", "reduction": reduction}
    results = []
    for loss in (Own(**settings), InfoNCE(**settings)):
        value = loss(query, key, *negatives)
        results.append([value.detach(), *torch.autograd.grad(value.sum(), [query, key, *negatives])])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_an_encoder_trains_with_it() -> None:
    loss = Own(negative_mode="paired")
    values = losses_of_an_encoder(lambda z1, z2, _: loss(z1, z2, torch.stack([z2.roll(1, 0), z2.roll(2, 0)], dim=1)))
    assert values[-1] < values[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Own(negative_mode="all"),
            "negative_mode must be 'unpaired' or 'paired', not 'all'",
        ),
        (
            lambda: Own(negative_mode="paired")(*views(4, 3), torch.ones(2, 3)),
            r"negative_keys must be \(N, M, D\) if negative_mode is 'paired', not \(2, 3\)",
        ),
        (lambda: Own()(views(4, 3)[0], None), r"positive_key must be the rows \(N, D\) of the positives, not NoneType"),
        (lambda: Own()(*views(4, 3), [1.0]), r"negative_keys must be \(M, D\), not list"),
    ],
)
def test_bad_input_gets_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("mode", ["paired", "unpaired"])
def test_two_processes_are_the_peer_with_the_whole_batch(mode: str) -> None:
    """With negatives of each query's own, and with the negatives of both processes for all."""
    query, key = (each.requires_grad_() for each in views(7, 4))
    negatives = views(21, 4)[0].reshape(7, 3, 4) if mode == "paired" else views(7, 4)[1].roll(1, 0)
    negatives = negatives.detach().clone().requires_grad_()
    expected = InfoNCE(negative_mode=mode)(query, key, negatives)
    grads = torch.autograd.grad(expected, [query, key, negatives])
    by_rank = workers(2).run(_part, mode, query.detach(), key.detach(), negatives.detach())
    for value, *_ in by_rank:
        assert value == pytest.approx(expected.item(), rel=1e-12)
    for place, grad in enumerate(grads, start=1):
        torch.testing.assert_close(torch.cat([each[place] for each in by_rank]) / 2, grad, rtol=1e-9, atol=1e-11)


def _part(mode: str, *whole: torch.Tensor) -> list[Any]:
    own = (slice(0, 3), slice(3, 7))[torch.distributed.get_rank()]
    parts = [each[own].clone().requires_grad_() for each in whole]
    loss = Own(negative_mode=mode, gather=True)(*parts)
    return [loss.item(), *torch.autograd.grad(loss, parts)]
