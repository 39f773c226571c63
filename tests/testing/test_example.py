"""One way to call any loss: types, axes, frozen parameters, and what cannot be called."""

from __future__ import annotations

import pytest
import torch

import hypersphere as hs
from tests.testing.foreign import Foreign


@pytest.mark.parametrize("dim", [1, -1])
def test_a_module_with_weights_buffers_and_an_axis_is_checked_on_ordinary_embeddings(dim: int) -> None:
    loss = Foreign(dim)
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    hs.testing.assert_gradient_exact(loss)
    hs.testing.assert_survives(loss)
    assert all(torch.equal(value, before[name]) and value.dtype == torch.float32
               for name, value in loss.state_dict().items())  # fmt: skip


@pytest.mark.parametrize("name", ["infonce", "siglip", "hyperbolic"])
def test_frozen_parameters_are_left_alone(name: str) -> None:
    settings = {"learnable": True} if name != "siglip" else {}
    objective = hs.create_objective(name, **settings).requires_grad_(False)
    hs.testing.assert_survives(objective)
    hs.testing.assert_gradient_exact(objective)
    hs.testing.assert_streams_exactly(objective)


def test_what_cannot_be_tried_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match="an objective or a function of two views, not 'infonce'"):
        hs.testing.check("infonce")
    several = hs.create_objective("infonce", reduction="none")
    for check in (hs.testing.assert_gradient_exact, hs.testing.assert_distributed_exact):
        with pytest.raises(ValueError, match=r"gives \(\d+,\) numbers instead of one; try it with reduction 'mean'"):
            check(several)
