"""What losses in the call form of a peer share: the peer's defaults, and a temperature of the caller's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.integrations.call_forms import (
    as_number,
    call_at,
    create_as,
    create_with_callers_temperature,
    require_positives,
)
from hypersphere.testing.example import views


def test_a_peers_defaults_stand_behind_what_is_given() -> None:
    assert create_as("lightly", "ntxent").temperature == 0.5
    assert create_as("lightly", "ntxent", temperature=0.2).temperature == 0.2
    assert repr(create_as("nobody", "ntxent")) == repr(hs.create_objective("ntxent"))


@pytest.mark.parametrize("name", ["infonce", "siglip"])
def test_the_callers_temperature_and_bias_stand_in_for_the_objectives_own(name: str) -> None:
    z1, z2 = views(6, 4)
    objective = create_with_callers_temperature("nobody", name)
    assert not any(each.requires_grad for each in objective.parameters())
    log_temperature = torch.tensor([0.3], dtype=torch.float64).log().requires_grad_()
    given: dict[str, Any] = {"temperature": 0.3}
    bias = None
    if name == "siglip":
        bias, given["bias"] = torch.tensor([-2.0], dtype=torch.float64, requires_grad=True), -2.0
    loss = call_at(objective, log_temperature, bias, z1, z2)
    assert loss.item() == pytest.approx(hs.create_objective(name, **given)(z1, z2).item(), rel=1e-6)  # it keeps float32
    loss.backward()
    for leaf in (log_temperature, bias):
        assert leaf is None or (leaf.grad is not None and leaf.grad.abs().item() > 1e-3)


def test_an_objective_without_a_temperature_gives_it_a_gradient_of_0() -> None:
    log_temperature = torch.zeros(1, requires_grad=True)
    call_at(create_with_callers_temperature("nobody", "met"), log_temperature, None, *views(6, 4)).backward()
    assert log_temperature.grad is not None and log_temperature.grad.item() == 0


def test_a_number_is_one_tensor_in_float32_with_its_gradient() -> None:
    like = torch.ones(2, 3)
    for given in (3, 3.0, torch.tensor(3.0), torch.tensor([[3.0]], dtype=torch.float16)):
        assert torch.equal(as_number(given, "scale", like), torch.tensor([3.0]))
    leaf = torch.tensor(3.0, requires_grad=True)
    as_number(leaf, "scale", like).square().sum().backward()
    assert leaf.grad is not None and leaf.grad.item() == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("three", "scale must be one number, not str"),
        ([1.0, 2.0], r"scale must be one number, not a tensor of shape \(2,\)"),
        (0, "scale must be above 0, not 0"),
    ],
)
def test_what_is_no_number_is_refused_in_one_sentence(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_number(given, "scale", torch.ones(2, 3), positive=True)


def test_a_missing_second_view_is_named() -> None:
    with pytest.raises(ValueError, match=r"candidates must be the rows \(N, D\) of the positives, not NoneType"):
        require_positives(None, "candidates")
