"""The checks on losses that are not ours: modules with weights, buffers, axes called dim, frozen parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import hypersphere as hs


class Foreign(nn.Module):
    """InfoNCE of projected rows, its keys turned by a fixed matrix."""

    def __init__(self, dim: int = 1, width: int = 4) -> None:
        super().__init__()
        self.dim = dim  # an axis
        self.weight = nn.Linear(width, width, bias=False)
        self.register_buffer("turn", torch.eye(width).roll(1, 0))

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        x, y = (normalize(self.weight(z), dim=self.dim, eps=1e-4) for z in (z1, z2))
        return -torch.log_softmax(x @ (y @ self.turn).T, dim=1).diagonal().mean()


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


@pytest.mark.parametrize("base", [Foreign(width=5), {"name": "cloa", "base": "vicreg", "num_classes": 2, "dim": 5}])
def test_a_base_that_knows_no_negatives_is_given_none(base: Any) -> None:
    hs.testing.assert_streams_exactly(hs.create_objective("cloa", num_classes=2, dim=5, base=base))


def plain(z1: Tensor, z2: Tensor) -> Tensor:
    return -(normalize(z1.float(), eps=1e-4) * normalize(z2.float(), eps=1e-4)).sum(1).mean()


class Written(hs.objectives.functions.FunctionObjective):
    """``plain`` as a name such as mine.py:plain makes it an objective."""

    made_from = staticmethod(plain)


@pytest.mark.parametrize("loss", [plain, Foreign(width=6), Written()], ids=["function", "module", "named"])
def test_a_loss_without_blocks_is_not_said_to_stream(loss: Any) -> None:
    with pytest.raises(ValueError, match="not one of hypersphere's objectives: it is called on whole views, so there"):
        hs.testing.assert_streams_exactly(loss)


def test_a_check_says_what_it_checked() -> None:
    whole = "survives degenerate input, and is exact on 1 process. It is evaluated on whole views, so streaming was "
    losses = {
        "plain": plain,
        "Written()": Written(),
        "CLOA(": hs.create_objective("cloa", num_classes=2, dim=4, base="vicreg"),
        "ReleasedParadigm(": hs.create_objective("released/paradigm"),
        "Barlow(": hs.create_objective("barlow"),
    }
    for name, loss in losses.items():
        said = hs.testing.check(loss, world_size=1)
        assert said.startswith(name) and said.endswith(f"{whole}not checked.") and "streams" not in said
    said = hs.testing.check(hs.create_objective("mpt"), world_size=1)
    assert said == "MPT(margin=0.23) streams exactly, survives degenerate input, and is exact on 1 process."


def test_what_goes_wrong_is_said_with_the_case() -> None:
    fixed = torch.eye(4)
    with pytest.raises(AssertionError, match=r"on torch\.float16 it fails"):
        hs.testing.assert_survives(lambda a, b: (normalize(a) @ fixed * normalize(b)).sum())
    for check in (hs.testing.assert_survives, hs.testing.assert_gradient_exact):
        with pytest.raises(AssertionError, match="does not depend on the embeddings"):
            check(lambda a, b: torch.tensor(1.0))


def test_what_cannot_be_tried_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match="an objective or a function of two views, not 'infonce'"):
        hs.testing.check("infonce")
    several = hs.create_objective("infonce", reduction="none")
    for check in (hs.testing.assert_gradient_exact, hs.testing.assert_distributed_exact):
        with pytest.raises(ValueError, match=r"gives \(\d+,\) numbers instead of one; try it with reduction 'mean'"):
            check(several)
    with pytest.raises(ValueError, match="world_size must be at least 1, not 0"):
        hs.testing.assert_distributed_exact(hs.create_objective("infonce"), world_size=0)


def test_random_numbers_of_the_caller_go_on_as_they_would() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    hs.testing.assert_distributed_exact(hs.create_objective("infonce"), world_size=1)
    assert torch.equal(torch.rand(3), expected)
