"""Bad input gets one clear sentence; difficult input a finite value and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import some_labels, views
from tests import cases

EYE = torch.eye(4)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((EYE, EYE[:3]), {}, r"views differ in shape: z1 \(4, 4\), z2 \(3, 4\)"),
        ((EYE[0], EYE[0]), {}, r"z1 must be a matrix, one embedding per row, not of shape \(4,\)"),
        ((EYE[:0], EYE[:0]), {}, "needs a batch of at least one instance; this one has 0"),
        ((EYE[:, :0], EYE[:, :0]), {}, "z1 must be a matrix"),
        ((EYE.int(), EYE.int()), {}, "z1 must hold floating point numbers, not torch.int32"),
        (([[1.0]], EYE), {}, "z1 must be a tensor, not list"),
        ((EYE * float("nan"), EYE), {}, "z1 holds NaN or Inf in 4 of 4 rows"),
        ((EYE, EYE.clone().index_put((torch.tensor([2]), torch.tensor([1])), torch.tensor(float("inf")))), {}, "row 2"),
        ((EYE, EYE), {"negatives": torch.eye(3)}, "negatives have 3 dimensions but the views have 4"),
        ((EYE, EYE), {"negatives": torch.full((2, 4), float("nan"))}, "negatives holds NaN or Inf"),
        ((EYE, EYE, torch.arange(3)), {}, r"labels must be a tensor of 4 whole numbers, one per row, not \(3,\)"),
        ((EYE, EYE, torch.rand(4)), {}, "labels must be whole numbers"),
        ((EYE, EYE, [0, 1, 0, 1]), {}, "labels must be a tensor of 4 whole numbers, one per row, not list"),
    ],
)
@pytest.mark.parametrize("context", [hs.dense, lambda: hs.streaming(2)], ids=["dense", "streaming"])
def test_bad_batches(args: tuple[Any, ...], kwargs: dict[str, Any], message: str, context: Any) -> None:
    for name in ("infonce", "supcon"):  # one that fills in labels too
        with context(), pytest.raises(ValueError, match=message):
            hs.create_objective(name)(*args, **kwargs)


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


def test_cloa_refuses_labels_and_dimensions_it_has_no_anchors_for() -> None:
    objective = hs.create_objective("cloa", num_classes=2, dim=4)
    with pytest.raises(ValueError, match=r"below the number of classes \(2\)"):
        objective(EYE, EYE, torch.tensor([0, 1, 2, 0]))
    with pytest.raises(ValueError, match="4 dimensions but the views have 5"):
        objective(torch.eye(5), torch.eye(5), torch.zeros(5, dtype=torch.int64))
    inner = hs.create_objective("infonce")
    with pytest.raises(ValueError, match="has not"):
        hs.create_objective("cloa", num_classes=2, dim=4, base=inner, gather=True)


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


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_degenerate_rows_are_survived_densely_and_streaming(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params)
    hs.testing.assert_survives(objective)
    with hs.streaming(2):
        hs.testing.assert_survives(objective)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_float16_rows_without_a_normal_number_count_as_zero(name: str, params: dict[str, Any]) -> None:
    """The inverse of their length, and so their gradient, would be beyond float16."""
    objective = hs.create_objective(name, **params)
    for rows in (hs.dense(), hs.streaming(2)):
        z1, z2 = ((z * 6e-8).half().requires_grad_() for z in views(6, 4))
        with rows:
            value = objective(z1, z2, some_labels(6))
            zero = objective(torch.zeros(6, 4), torch.zeros(6, 4), some_labels(6))
        assert value.item() == zero.item()
        for grad in torch.autograd.grad(value, [z1, z2], allow_unused=True):
            assert grad is None or grad.isfinite().all()


@pytest.mark.parametrize("temperature", [0.005, 0.01, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", ["infonce", "ntxent", "dclw", "siglip", "supcon", "mmhe", "mbarlow"])
def test_every_temperature_is_survived(name: str, temperature: float) -> None:
    learnable = name not in ("mmhe", "mbarlow")
    hs.testing.assert_survives(hs.create_objective(name, temperature=temperature, learnable=learnable))


@pytest.mark.parametrize("dim", [1, 2, 64, 4096])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE))
def test_every_dimension_is_survived(name: str, params: dict[str, Any], dim: int) -> None:
    z1, z2 = (z.float().requires_grad_() for z in views(5, dim))
    loss = hs.create_objective(name, **params)(z1, z2, some_labels(5))
    loss.backward()
    assert loss.isfinite()
    assert z1.grad.isfinite().all()


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE + cases.RELEASED))
def test_a_zero_row_gets_no_gradient(name: str, params: dict[str, Any]) -> None:
    z1, z2 = views(5, 4)
    z1[2] = 0
    z1.requires_grad_()
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            (grad,) = torch.autograd.grad(hs.create_objective(name, **params)(z1, z2, some_labels(5)), [z1])
        assert (grad[2] == 0).all()
        assert grad.isfinite().all()


def test_huge_and_tiny_rows_have_the_value_of_their_direction() -> None:
    z1, z2 = views(5, 4, dtype=torch.float32)
    expected = hs.create_objective("ntxent")(z1, z2).item()
    scales = torch.tensor([1e35, 1e-25, 1.0, 1e20, 1e-20])[:, None]
    assert hs.create_objective("ntxent")(z1 * scales, z2 / 1e3).item() == pytest.approx(expected, rel=1e-5)


def test_names_cannot_be_taken_twice() -> None:
    with pytest.raises(ValueError, match="'infonce' is registered already"):

        @hs.register("infonce")
        class Other(hs.PairwiseObjective):
            pass
