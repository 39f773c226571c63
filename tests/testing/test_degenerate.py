"""Input that breaks careless losses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

import hypersphere as hs


def test_a_type_that_the_loss_does_not_take_is_named() -> None:
    fixed = torch.eye(4)
    with pytest.raises(AssertionError, match=r"on torch\.float16 it fails"):
        hs.testing.assert_survives(lambda a, b: (normalize(a) @ fixed * normalize(b)).sum())
    with pytest.raises(AssertionError, match="does not depend on the embeddings"):
        hs.testing.assert_survives(lambda a, b: torch.tensor(1.0))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda a, b: (a / a.norm(dim=1, keepdim=True) * b).sum(), "on a zero row the value is nan"),
        (lambda a, b: (a - b).norm(dim=1).sqrt().sum(), "on identical views the gradient in z1 is not finite"),
        (lambda a, b: (a * a).sum() + (b * b).sum(), "on huge rows the value is inf"),
    ],
)
def test_a_loss_that_breaks_is_named_with_the_input_that_broke_it(loss: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        hs.testing.assert_survives(loss)
