"""Settings stay consistent when they are changed, and reach inner objectives; results do not depend on how."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.objectives import PairwiseObjective
from hypersphere.testing.example import some_labels, views
from tests import cases
from tests import reference as ref

SUMMED = [case for case in cases.PAIRWISE if case[0] in ("infonce", "ntxent", "kcl", "mmhe")]


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


def test_mixup_and_its_base_agree_on_the_reduction() -> None:
    z1, z2 = views(5, 4)
    total = hs.create_objective("mixup", reduction="sum")(z1, z2).item()
    assert total == pytest.approx(5 * hs.create_objective("mixup")(z1, z2).item())
    with pytest.raises(ValueError, match="reduction='sum' but its base"):
        hs.create_objective("mixup", base=hs.create_objective("infonce"), reduction="sum")


@pytest.mark.parametrize("wrapper", [{"name": "cloa", "num_classes": 2, "dim": 4}, {"name": "mixup"}])
def test_wrappers_learn_what_their_base_learns(wrapper: dict[str, Any]) -> None:
    objective = hs.create_objective(**wrapper, learnable=True)
    assert [name for name, _ in objective.named_parameters()] == ["base.log_temperature"]


def test_hyperbolic_learns_one_temperature_for_both_parts() -> None:
    objective = hs.create_objective("hyperbolic", learnable=True)
    assert len(list(objective.parameters())) == 1
    hs.testing.assert_gradient_exact(objective)
    hs.testing.assert_streams_exactly(objective)


def test_numpy_numbers_are_numbers() -> None:
    assert hs.create_objective("met", margin=np.float32(0.5)).margin == 0.5
    assert hs.create_objective("cloa", num_classes=np.int64(2), dim=4).num_classes == 2


def test_a_preset_asked_for_as_an_objective_is_explained() -> None:
    with pytest.raises(ValueError, match=r"'simcse' is a preset: say create_objective\('infonce', preset='simcse'\)"):
        hs.create_objective("simcse")


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.int32, torch.bool])
def test_labels_of_any_whole_type(dtype: torch.dtype) -> None:
    z1, z2 = views(6, 4)
    labels = (torch.arange(6) % 2).to(dtype)
    for objective in (hs.create_objective("supcon"), hs.create_objective("cloa", num_classes=2, dim=4)):
        assert objective(z1, z2, labels).item() == objective(z1, z2, labels.long()).item()


class Careless(PairwiseObjective):
    """Returns whatever it was made with."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return self.answer(positive)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda p: p.sum(), r"one number per anchor, of shape \(4,\); its 'loss' has shape \(\)"),
        (lambda p: p[:, None], r"its 'loss' has shape \(4, 1\)"),
        (lambda p: {"value": p}, "names value, but no 'loss'"),
    ],
)
def test_what_per_anchor_returns_is_checked(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Careless(answer)(torch.eye(4), torch.eye(4))


def test_a_statistic_that_is_a_view_of_the_block_is_not_overwritten() -> None:
    class First(PairwiseObjective):
        def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> dict[str, Tensor]:
            return {"loss": -positive, "first": negatives[:, 0]}

    z1, z2 = views(7, 4)
    expected = First().terms(z1, z2)["first"].item()
    with hs.streaming(3):
        assert First().terms(z1, z2)["first"].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(SUMMED))
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_reductions_stream_with_their_gradient(name: str, params: dict[str, Any], reduction: str) -> None:
    hs.testing.assert_streams_exactly(hs.create_objective(name, **{**params, "reduction": reduction}))


def test_extreme_rows_have_the_same_gradient_streamed_and_dense() -> None:
    z1, z2 = views(8, 4)
    scales = torch.tensor([1.0, 0.0, 1e40, 1e-40, 1e120, 1.0, 1e-20, 1e20], dtype=torch.float64)[:, None]
    grads = []
    for context in (hs.dense(), hs.streaming(3)):
        x = (z1 * scales).requires_grad_()
        with context:
            grads.append(torch.autograd.grad(hs.create_objective("ntxent")(x, z2), [x])[0] * scales)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-9, atol=1e-12)
    assert (grads[0][1] == 0).all()


def test_parameters_in_bfloat16_accumulate_exactly() -> None:
    z1, z2 = (z.float() for z in views(256, 8))
    found = []
    for rows in (256, 4):
        objective = hs.create_objective("ntxent", learnable=True).bfloat16()
        with hs.streaming(rows):
            objective(z1, z2).backward()
        found.append(objective.log_temperature.grad.item())
    assert found[1] == pytest.approx(found[0], rel=1e-2)


def test_no_gradient_is_computed_where_none_is_wanted() -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 4))
    objective = hs.create_objective("infonce", learnable=True).double()
    for context in (torch.no_grad(), torch.inference_mode()):
        with context, hs.streaming(2):
            assert not objective(z1, z2).requires_grad


def test_riesz_energies_of_mhe_against_loops() -> None:
    z1, _ = views(6, 4)
    h = ref.unit_rows(z1.numpy())
    pairs = [ref.euclidean(ref.dot(h[i], h[j])) for i in range(6) for j in range(6) if i != j]
    for s in (0, 1.0, 2.0):
        expected = ref.mean([-math.log(d) if s == 0 else d**-s for d in pairs])
        found = hs.create_objective("mhe", s=s, weight=1.0).terms(z1, z1)["energy"].item()
        assert found == pytest.approx(expected, rel=1e-12)


def test_uniform_and_power_weights_against_loops() -> None:
    z1, z2 = views(6, 4)
    h, g = ref.unit_rows(z1.numpy()), ref.unit_rows(z2.numpy())
    for weight, raised in (("uniform", lambda s: 1.0), ({"name": "power", "power": 2.0}, lambda s: max(s, 1e-4) ** 2)):
        total = 0.0
        for i in range(6):
            cosines = [ref.dot(h[i], g[j]) for j in range(6) if j != i]
            weights = [raised(s) for s in cosines]
            shares = [w / sum(weights) for w in weights]
            total += sum(w * (s - ref.dot(h[i], g[i])) for w, s in zip(shares, cosines, strict=True)) / 6
        found = hs.create_objective("paradigm", dissipation="none", weight=weight)(z1, z2).item()
        assert found == pytest.approx(total, rel=1e-12)


def test_debiased_rests_on_its_floor_where_the_correction_is_not_positive() -> None:
    x = torch.eye(6, dtype=torch.float64)
    for temperature in (0.5, 0.07):
        found = hs.create_objective("debiased", prior=0.9, temperature=temperature)(x, x).item()
        floor = 10 * math.exp(-1 / temperature)
        expected = math.log1p(floor / math.exp(1 / temperature))
        assert found == pytest.approx(expected, rel=1e-9)


def test_the_weight_of_cloa_counts() -> None:
    z1, z2 = views(6, 4)
    labels = some_labels(6)
    one, three = (
        hs.create_objective("cloa", num_classes=2, dim=4, weight=w)(z1, z2, labels).item() for w in (1.0, 3.0)
    )
    base = hs.create_objective("ntxent")(z1, z2).item()
    assert three - base == pytest.approx(3 * (one - base), rel=1e-9)


def test_coupled_anchors_have_no_list_of_losses() -> None:
    assert hs.create_objective("paradigm", reduction="none")(*views(5, 3)).shape == (5,)
    with pytest.raises(ValueError, match="mmhe has no reduction 'none', only 'sum' or 'mean'"):
        hs.create_objective("mmhe", reduction="none")
