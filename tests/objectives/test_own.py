"""Objectives of somebody's own: what they may return, and one sentence for what they may not."""

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import SOFTPLUS, masked_sum, masked_sum_of
from hypersphere.objectives import PairwiseObjective

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
        found = objective.terms(z1, z2)
    assert z1.grad is not None and bool(z1.grad.any())
    harder = sum(float(cosines[i, j] > cosines[i, i]) for i in range(8) for j in range(8) if i != j) / 8
    assert found["harder"].item() == pytest.approx(harder) and harder > 0
    assert found["solved"].item() == pytest.approx((cosines.diagonal() > 0.5).double().mean().item())


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


def test_an_objective_is_asked_for_by_name() -> None:
    with pytest.raises(ValueError, match=r"by its name, not by \['infonce'\]"):
        hs.create_objective(["infonce"])  # type: ignore[arg-type]
