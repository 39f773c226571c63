"""What every objective has from its base class: checked statistics, invariance, reductions and streaming."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import SOFTPLUS, masked_sum, masked_sum_of
from hypersphere.objectives import PairwiseObjective, within
from hypersphere.testing.example import some_labels, views
from tests import cases
from tests.theory import loss_gradients

PLACES = [hs.dense, lambda: hs.streaming(3)]


class Own(PairwiseObjective):
    """Returns what it is told to."""

    answer: Any

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return self.answer(positive, negatives, mask)


def own(answer: Any) -> Own:
    objective = Own()
    objective.answer = answer
    return objective


@pytest.mark.parametrize("context", PLACES, ids=["dense", "streaming"])
def test_parts_may_be_counts_and_conditions(context: Any) -> None:
    objective = own(
        lambda p, n, m: {
            "loss": masked_sum(n, m) - p,
            "harder": ((n > p.unsqueeze(1)) & m).sum(dim=1),
            "solved": p > 0.5,
        }
    )
    z1, z2 = (torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_() for seed in (0, 1))
    cosines = torch.nn.functional.cosine_similarity(z1.unsqueeze(1), z2.unsqueeze(0), dim=2).detach()
    with context():
        objective(z1, z2).backward()
        terms = objective.terms(z1, z2)
    assert z1.grad is not None and bool(z1.grad.any())
    harder = sum(float(cosines[i, j] > cosines[i, i]) for i in range(8) for j in range(8) if i != j) / 8
    assert terms["harder"].item() == pytest.approx(harder) and harder > 0
    assert terms["solved"].item() == pytest.approx((cosines.diagonal() > 0.5).double().mean().item())


@pytest.mark.parametrize("context", PLACES, ids=["dense", "streaming"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_what_is_learned_may_be_a_number_in_any_shape(context: Any, shape: tuple[int, ...]) -> None:
    for learned in ("scale", "shift"):
        parameter = torch.nn.Parameter(torch.full(shape, 2.0))
        numbers: dict[str, Any] = {"scale": 3.0, "shift": -1.0, learned: parameter}
        objective = own(lambda p, n, m, numbers=numbers: masked_sum_of(SOFTPLUS, n, m, **numbers) - p)
        objective.learned = parameter
        with context():
            objective(torch.eye(5), torch.eye(5).roll(1, 0)).backward()
        grad = parameter.grad
        assert grad is not None and grad.shape == shape and bool(grad != 0)


@pytest.mark.parametrize("context", PLACES, ids=["dense", "streaming"])
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda p, n, m: None, "or several such by name; it returned NoneType"),
        (lambda p, n, m: {"loss": 0.0}, "its 'loss' is float, not a tensor"),
        (lambda p, n, m: n, r"its 'loss' has shape"),
        (lambda p, n, m: {"energy": p}, "names energy, but no 'loss'"),
    ],
)
def test_a_mistake_gets_one_sentence(answer: Any, sentence: str, context: Any) -> None:
    with context(), pytest.raises(ValueError, match=sentence):
        own(answer)(torch.eye(5), torch.eye(5))


class Combined(PairwiseObjective):
    """Forgets its loss."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return {"energy": masked_sum(negatives, mask)}

    def combine(self, statistics: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"total": statistics["energy"].sum()}


@pytest.mark.parametrize("context", PLACES, ids=["dense", "streaming"])
def test_what_is_combined_has_a_loss(context: Any) -> None:
    with context(), pytest.raises(ValueError, match=r"Combined.combine names total, but no 'loss'"):
        Combined()(torch.eye(5), torch.eye(5))


SUMMED = [case for case in cases.PAIRWISE if case[0] in ("infonce", "ntxent", "kcl", "mmhe")]


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


def test_parameters_in_bfloat16_accumulate_exactly() -> None:
    z1, z2 = (z.float() for z in views(256, 8))
    grads = []
    for rows in (256, 4):
        objective = hs.create_objective("ntxent", learnable=True).bfloat16()
        with hs.streaming(rows):
            objective(z1, z2).backward()
        grads.append(objective.log_temperature.grad.item())
    assert grads[1] == pytest.approx(grads[0], rel=1e-2)


def test_no_gradient_is_computed_where_none_is_wanted() -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 4))
    objective = hs.create_objective("infonce", learnable=True).double()
    for context in (torch.no_grad(), torch.inference_mode()):
        with context, hs.streaming(2):
            assert not objective(z1, z2).requires_grad


PAIRWISE = cases.PAIRWISE
ROTATION_INVARIANT = [c for c in PAIRWISE if c[0] != "mbarlow" or c[1].get("stage") not in ("original", "+gd")]


@pytest.mark.parametrize(("name", "params"), **cases.named(ROTATION_INVARIANT))
def test_rotation_permutation_and_scale_change_nothing(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params).double()
    z1, z2 = views(6, 4)
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    scale = torch.rand(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.5
    labels = some_labels(6)
    expected = pytest.approx(objective(z1, z2, labels).item(), rel=1e-10)
    assert objective(z1 @ rotation, z2 @ rotation, labels).item() == expected
    assert objective(z1[order], z2[order], labels[order]).item() == expected
    assert objective(z1 * scale, z2 / scale, labels).item() == expected


@pytest.mark.parametrize(("name", "params"), **cases.named(ROTATION_INVARIANT))
def test_rank_one_is_stationary(name: str, params: dict[str, Any]) -> None:
    """All rows ±z*: any loss of cosines has no gradient there (Li & Pimentel-Alarcón 2024, Theorem 3.1)."""
    signs = torch.tensor([1, 1, -1, 1, -1, 1.0], dtype=torch.float64)[:, None]
    direction = torch.tensor([[0.3, -0.5, 0.2, 0.7]], dtype=torch.float64)
    objective = hs.create_objective(name, **params)
    for grad in loss_gradients(objective, signs * direction, signs * direction, labels=some_labels(6)):
        assert grad.abs().max() < 1e-9


def test_the_parts_of_an_objective_are_its_bases_and_then_what_is_added() -> None:
    inner = {"name": "plus", "base": {"name": "mixup", "base": "ntxent"}, "extra": "gor"}
    objective = hs.create_objective("plus", base=inner, extra="koleo")
    assert [each.name for each in within(objective)] == ["plus", "plus", "mixup", "ntxent", "gor", "koleo"]
    assert list(within(torch.nn.Identity())) == []
