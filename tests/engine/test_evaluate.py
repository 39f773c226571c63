"""Streamed objectives where somebody else differentiates too: around them, or inside."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.autograd import forward_ad

import hypersphere as hs
from hypersphere.engine import SOFTPLUS, masked_logsumexp, masked_max, masked_mean, masked_sum_of, weighted_sum
from hypersphere.objectives import FeatureObjective, PairwiseObjective
from hypersphere.testing.example import views
from tests.cases import TWO_VIEWS


@pytest.mark.parametrize("name", ["infonce", "ntxent", "met", "siglip"])
def test_checkpoints_recompute_a_streamed_objective(name: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    objective = hs.create_objective(name)
    with hs.streaming(4):
        expected = torch.autograd.grad(objective(z1, z2), [z1, z2])
        loss = torch.utils.checkpoint.checkpoint(lambda a, b: objective(2 * a, 3 * b), z1, z2, use_reentrant=False)
        grads = torch.autograd.grad(loss, [z1, z2])  # which runs forward again
    for one, other in zip(grads, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-13)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at it, and hides the warning itself
@pytest.mark.parametrize("name", ["infonce", "hyperbolic"])
def test_a_compiled_step_breaks_its_graph_once(name: str) -> None:
    import torch._dynamo

    objective, encoder = hs.create_objective(name).double(), torch.nn.Linear(5, 3).double()
    z1, z2 = views(6, 5)

    def step(a: Tensor, b: Tensor) -> Tensor:
        value: Tensor = objective(encoder(a), encoder(b))
        return 2 * value

    for context in (hs.dense, lambda: hs.streaming(4)):
        with context():
            expected = torch.autograd.grad(step(z1, z2), encoder.weight)[0]
            torch._dynamo.reset()
            assert torch._dynamo.explain(step)(z1, z2).graph_break_count <= 1  # type: ignore[no-untyped-call]
            compiled = torch.compile(step, backend="eager")
            torch.testing.assert_close(torch.autograd.grad(compiled(z1, z2), encoder.weight)[0], expected)


class DifferentiatesInside(PairwiseObjective):
    """Weighs by gradients of its own, once with and once without a graph."""

    reduced: Any = None

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        with torch.enable_grad():
            value = self.reduced(negatives, mask)
            leaf = negatives if negatives.requires_grad else negatives.detach().requires_grad_()
            again = value if negatives.requires_grad else self.reduced(leaf, mask)
            (inside,) = torch.autograd.grad(again.sum(), leaf, retain_graph=True)
        return value * (inside.detach() ** 2).sum(dim=1) + self.reduced(negatives**2, mask) - positive


REDUCTIONS: dict[str, Any] = {
    "max": masked_max,
    "logsumexp": masked_logsumexp,
    "mean": masked_mean,
    "curve": lambda x, mask: masked_sum_of(SOFTPLUS, x, mask, 2.0, 0.1),
    "weighted": lambda x, mask: weighted_sum(mask.to(x), x) + masked_logsumexp(x, mask),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_an_objective_may_differentiate_inside(reduction: str) -> None:
    hs.testing.assert_streams_exactly(DifferentiatesInside(reduced=REDUCTIONS[reduction]))


def shift_margin(objective: Any, labels: Tensor) -> None:
    objective.margin = 0.0


def learn(objective: Any, labels: Tensor) -> None:
    with torch.no_grad():
        objective.log_temperature.add_(1.0)


def forget_labels(objective: Any, labels: Tensor) -> None:
    labels.fill_(-1)


@pytest.mark.parametrize(
    ("name", "params", "change", "said"),
    [
        ("met", {}, shift_margin, "a setting of the objective was changed"),
        ("infonce", {"learnable": True}, learn, "modified by an inplace operation"),
        ("supcon", {}, forget_labels, "modified by an inplace operation"),
    ],
)
def test_what_changes_before_a_second_visit_is_noticed(name: str, params: Any, change: Any, said: str) -> None:
    """Losses anchor by anchor are computed again in backward, which must not be the gradient of something else."""
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    objective, labels = hs.create_objective(name, reduction="none", **params).double(), torch.arange(9) % 3
    with hs.streaming(4):
        values = objective(z1, z2, labels)
        expected = torch.autograd.grad(values.sum(), z1)[0]
        values = objective(z1, z2, labels)
        objective.eval()  # which is no setting
        torch.testing.assert_close(torch.autograd.grad(values.sum(), z1)[0], expected)
        values = objective(z1, z2, labels)
        change(objective, labels)
        with pytest.raises(RuntimeError, match=said):
            torch.autograd.grad(values.sum(), z1)


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_torch_func_sees_the_same_derivatives(name: str) -> None:
    z1, z2 = views(6, 3)
    objective = hs.create_objective(name).double().eval()
    leaf = z1.clone().requires_grad_()
    expected = torch.autograd.grad(objective(leaf, z2), leaf)[0]

    def loss(z: Tensor) -> Tensor:
        value: Tensor = objective(z, z2)
        return value

    torch.testing.assert_close(torch.func.grad(loss)(z1), expected)
    torch.testing.assert_close(torch.func.jacrev(loss)(z1), expected)
    torch.testing.assert_close(torch.func.jacfwd(loss)(z1), expected)
    direction = z1.flip(0)
    value, along = torch.func.jvp(loss, (z1,), (direction,))
    torch.testing.assert_close(value, objective(z1, z2))
    torch.testing.assert_close(along, (expected * direction).sum())
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(loss(forward_ad.make_dual(z1, direction)))
        torch.testing.assert_close(dual.tangent, along)
    refused = pytest.raises(RuntimeError, match=r"torch\.func and forward mode")
    whole = isinstance(objective, FeatureObjective) or name == "gor"  # of features where all pairs count
    with hs.streaming(2), nullcontext() if whole else refused:
        torch.func.grad(loss)(z1)


@pytest.mark.parametrize("name", ["infonce", "siglip", "mhe", "spectral"])
def test_torch_func_sees_the_same_second_derivatives(name: str) -> None:
    z1, z2 = views(4, 3)
    objective = hs.create_objective(name).double()
    expected = torch.autograd.functional.hessian(lambda z: objective(z, z2), z1)
    torch.testing.assert_close(torch.func.hessian(lambda z: objective(z, z2))(z1), expected)


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_a_batch_of_upstream_gradients_is_a_gradient_each(name: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(6, 4))
    objective = hs.create_objective(name).double().eval()
    for context in (hs.dense, lambda: hs.streaming(4)):
        with context():
            (grad,) = torch.autograd.grad(objective(z1, z2), z1)
            upstream = torch.tensor([1.0, -2.0], dtype=torch.float64)
            (several,) = torch.autograd.grad(objective(z1, z2), z1, upstream, is_grads_batched=True)
        torch.testing.assert_close(several, torch.stack([grad, -2 * grad]))


class InPlace(PairwiseObjective):
    """DCL, written carelessly."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        return masked_logsumexp(negatives.div_(0.1), mask) - positive / 0.1


def test_positives_do_not_change_with_what_is_done_to_negatives() -> None:
    z1, z2 = views(7, 4)
    expected = hs.create_objective("dcl", temperature=0.1)(z1, z2)
    torch.testing.assert_close(InPlace()(z1, z2), expected)
