"""Held-out data in the trainer of another library: numbers, and each verdict once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hypersphere.integrations.held_out import SHOWN, HeldOut
from tests.integrations import planted


def test_a_collapse_is_reported_once_and_its_end_too() -> None:
    collapsing, encoder = planted.Collapsing(), nn.Linear(2, 2)
    healthy = planted.views(1)
    held_out = HeldOut(lambda: healthy if recovered else collapsing(encoder))
    recovered, numbers, sentences = False, [], []
    for step in range(4):
        measured, said = held_out.measure(step)
        numbers.append(measured)
        sentences += said
    planted.check(numbers, sentences, "")
    assert set(numbers[0]) <= set(SHOWN)
    recovered = True
    ended = [sentence for step in range(4, 12) for sentence in held_out.measure(step)[1]]
    assert [each for each in ended if each.startswith("over-fusion")] == ["over-fusion: no longer at step 4."]


def test_measuring_leaves_modes_buffers_and_random_numbers_alone() -> None:
    encoder = nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 4))

    def embed() -> tuple[Tensor, Tensor]:
        return encoder(x), encoder.eval()(x)

    x = torch.randn(16, 6)
    buffers = {name: value.clone() for name, value in encoder.named_buffers()}
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    HeldOut(embed).measure(0, [encoder])
    assert torch.equal(torch.rand(4), expected)
    assert all(module.training for module in encoder.modules())
    assert all(torch.equal(value, buffers[name]) for name, value in encoder.named_buffers())


@pytest.mark.parametrize(
    ("returned", "kind"), [(torch.eye(3), "a Tensor"), ([torch.eye(3)] * 3, "a list of 3"), ((1, 2), "a tuple of 2")]
)
def test_what_is_no_two_views_is_refused(returned: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=f"embed must return the two views of the held-out rows, not {kind}"):
        HeldOut(lambda: returned).measure(0)
