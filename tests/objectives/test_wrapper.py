"""What an objective around another one takes over from it, and what they must agree on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.engine import Inputs, Statistics
from hypersphere.objectives.wrapper import Wrapper
from hypersphere.testing.example import views


def test_mixup_and_its_base_agree_on_the_reduction() -> None:
    z1, z2 = views(5, 4)
    total = hs.create_objective("mixup", reduction="sum")(z1, z2).item()
    assert total == pytest.approx(5 * hs.create_objective("mixup")(z1, z2).item())
    with pytest.raises(ValueError, match="reduction='sum' but its base"):
        hs.create_objective("mixup", base=hs.create_objective("infonce"), reduction="sum")


class Doubled(Wrapper):
    """Twice its base."""

    name = "doubled"

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        return {key: 2 * value for key, value in self.base.evaluate(inputs, terms).items()}


def test_a_base_is_a_name_a_mapping_or_an_objective() -> None:
    z1, z2 = views(5, 3)
    met = hs.create_objective("met", margin=0.4)
    for base in ({"name": "met", "margin": 0.4}, met):
        assert Doubled(base=base)(z1, z2).item() == 2 * met(z1, z2).item()
    assert repr(Doubled()) == "Doubled(base=InfoNCE(temperature=0.05, symmetric=False))"
    for wrong in ("mett", 3, {"margin": 0.4}):
        with pytest.raises(ValueError, match=r"there is no objective 'mett'|doubled's base must be a name, a mapping"):
            Doubled(base=wrong)
    for wrong in (torch.nn.Identity(), Doubled()):
        with pytest.raises(ValueError, match="doubled needs one of hypersphere's other objectives as its base, not"):
            Doubled(base=wrong)


def test_the_reduction_is_the_bases_unless_it_was_given() -> None:
    summed = hs.create_objective("met", reduction="sum")
    assert Doubled(base=summed).reduction == "sum" and summed.reduction == "sum"
    around = Doubled(base="met", reduction="sum")
    assert around.base.reduction == "sum"
    around.reduction = "mean"  # later changes reach the base too
    assert around.base.reduction == "mean"
    with pytest.raises(ValueError, match=r"doubled has reduction='mean' but its base MET\(.*\) has 'sum'"):
        Doubled(base=summed, reduction="mean")


def test_gathering_and_learning_are_those_of_the_base() -> None:
    assert Doubled(base="met", gather=True).base.gather is True
    with pytest.raises(ValueError, match=r"doubled has gather=False but its base MET\(.*\) has not"):
        Doubled(base=hs.create_objective("met", gather=True))
    learned = Doubled(base="infonce", learnable=True)
    assert [name for name, _ in learned.named_parameters()] == ["base.log_temperature"]


def test_what_a_call_may_give_is_what_the_base_takes() -> None:
    for name in ("infonce", "supcon", "vicreg", "xclr", "hyperbolic"):
        base = hs.create_objective(name)
        around: Any = Doubled(base=name)
        assert (around.takes, around.needs, around.raw_rows) == (base.takes, base.needs, base.raw_rows)
    assert Doubled(base={"name": "cloa", "num_classes": 3, "dim": 7}).dim == 7
