"""Settings stay consistent when they are changed, and reach inner objectives; a wrong one gets one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

import hypersphere as hs
from hypersphere.testing.example import views


def test_a_changed_setting_reaches_the_inner_objectives() -> None:
    z1, z2 = views(6, 4)
    hyperbolic = hs.create_objective("hyperbolic")
    hyperbolic.temperature, hyperbolic.curvature, hyperbolic.reduction = 1.0, 0.5, "sum"
    fresh = hs.create_objective("hyperbolic", temperature=1.0, curvature=0.5, reduction="sum")
    assert hyperbolic(z1, z2).item() == fresh(z1, z2).item()
    cloa = hs.create_objective("cloa", num_classes=2, dim=4)
    cloa.gather = True
    assert cloa.base.gather
    assert cloa.regression.gather
    for wrapper in (cloa, hs.create_objective("mixup")):
        before = wrapper.base
        for base in (hs.create_objective("ntxent", gather=True), nn.Identity(), "ntxent"):
            with pytest.raises(ValueError, match="base is fixed when it is created"):
                wrapper.base = base
        wrapper.base = before  # which changes nothing: trainers set every part of a loss to itself
        assert wrapper.base is before
    with pytest.raises(ValueError, match="seed is fixed when it is created"):
        cloa.seed = 3
    mixup = hs.create_objective("mixup")
    mixup.reduction = "sum"
    assert mixup(z1, z2).item() == hs.create_objective("mixup", reduction="sum")(z1, z2).item()


@pytest.mark.parametrize(
    ("name", "setting", "value", "message"),
    [
        ("dclw", "reduction", "none", "dclw has no reduction 'none'"),
        ("align_uniform", "reduction", "sum", "align_uniform has no reduction 'sum'"),
        ("mmhs", "stage", "+w", "mmhs has no stage"),
        ("kcl", "kernel", "riesz", "cannot align"),
        ("infonce", "learnable", True, "learnable is fixed"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_and_undone(name: str, setting: str, value: Any, message: str) -> None:
    objective = hs.create_objective(name)
    before = getattr(objective, setting)
    with pytest.raises(ValueError, match=message):
        setattr(objective, setting, value)
    assert getattr(objective, setting) == before


@pytest.mark.parametrize("wrapper", [{"name": "cloa", "num_classes": 2, "dim": 4}, {"name": "mixup"}])
def test_wrappers_learn_what_their_base_learns(wrapper: dict[str, Any]) -> None:
    objective = hs.create_objective(**wrapper, learnable=True)
    assert [name for name, _ in objective.named_parameters()] == ["base.log_temperature"]


def test_numpy_numbers_are_numbers() -> None:
    assert hs.create_objective("met", margin=np.float32(0.5)).margin == 0.5
    assert hs.create_objective("cloa", num_classes=np.int64(2), dim=4).num_classes == 2


def test_coupled_anchors_have_no_list_of_losses() -> None:
    assert hs.create_objective("paradigm", reduction="none")(*views(5, 3)).shape == (5,)
    with pytest.raises(ValueError, match="mmhe has no reduction 'none', only 'sum' or 'mean'"):
        hs.create_objective("mmhe", reduction="none")


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("infonse", {}, r"there is no objective 'infonse'; did you mean 'infonce'\?"),
        ("infonce", {"temprature": 1}, r"infonce has no parameter 'temprature'; did you mean 'temperature'\?"),
        ("infonce", {"temperature": 0}, "infonce's temperature must be a number above 0, not 0"),
        ("infonce", {"temperature": "hot"}, "infonce's temperature must be a number above 0, not 'hot'"),
        ("infonce", {"temperature": float("nan")}, "must be a number above 0, not nan"),
        ("infonce", {"symmetric": 1}, "infonce's symmetric must be True or False, not 1"),
        ("infonce", {"reduction": "avg"}, "infonce's reduction must be 'mean' or 'sum' or 'none', not 'avg'"),
        ("met", {"margin": -1}, "met's margin must be a number at least 0, not -1"),
        ("met", {"learnable": True}, "met has nothing to learn"),
        ("align_uniform", {"weight": 2}, "must be a number at least 0 and at most 1, not 2"),
        ("align_uniform", {"reduction": "none"}, "align_uniform has no reduction 'none', only 'mean'"),
        ("mmhe", {"reduction": "none"}, "mmhe has no reduction 'none'"),
        ("mmhe", {"stage": "+x"}, r"mmhe's stage must be 'original' or '\+gd' or '\+w' or '\+r', not '\+x'"),
        ("supcon", {"form": "up"}, "supcon's form must be 'out' or 'in', not 'up'"),
        ("cloa", {"dim": 4}, "cloa needs num_classes: a whole number at least 1"),
        ("cloa", {"dim": 2, "num_classes": 3}, "cannot have 3 orthonormal anchors in 2 dimensions"),
        ("cloa", {"dim": 4, "num_classes": 2.5}, "num_classes must be a whole number at least 1, not 2.5"),
        ("cloa", {"dim": 4, "num_classes": 2, "base": 3}, "cloa's base must be a name, a mapping"),
        ("cloa", {"dim": 4, "num_classes": 2, "base": {"name": "met", "margn": 1}}, "did you mean 'margin'"),
        ("paradigm", {"weight": "heaviest"}, "paradigm's weight must be softmax, hardest"),
        ("paradigm", {"ratio": {"name": "constant", "r": 1}}, "has no parameter 'r', only value"),
        ("paradigm", {"ratio": 3}, "paradigm's ratio must be a name"),
        ("paradigm", {"weight": {"name": "softmax", "temperature": 0}}, "temperature must be a number above 0"),
    ],
)
def test_bad_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.create_objective(name, **params)


def test_settings_can_be_changed_and_stay_checked() -> None:
    objective = hs.create_objective("met")
    objective.margin = 0.1
    assert repr(objective) == "MET(margin=0.1)"
    with pytest.raises(ValueError, match="at least 0"):
        objective.margin = -1
    learned = hs.create_objective("infonce", learnable=True)
    learned.temperature = 0.2
    assert learned.temperature.item() == pytest.approx(0.2)
    assert [name for name, _ in learned.named_parameters()] == ["log_temperature"]
    assert repr(learned) == "InfoNCE(temperature=0.2, symmetric=False, learnable=True)"


def test_state_is_saved_and_loaded() -> None:
    learned = hs.create_objective("siglip", temperature=0.3)
    fresh = hs.create_objective("siglip")
    fresh.load_state_dict(learned.state_dict())
    assert fresh.temperature.item() == pytest.approx(0.3)
    scalars = {name: value.reshape(()) for name, value in hs.create_objective("siglip", bias=-7.0).state_dict().items()}
    fresh.load_state_dict(scalars)  # as they were before parameters had a dimension
    assert fresh.bias.item() == -7 and fresh.temperature.shape == ()
    assert {tuple(parameter.shape) for parameter in fresh.parameters()} == {(1,)}
