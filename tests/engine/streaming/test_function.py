"""The streamed form is the dense form, in less memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import hypersphere as hs
from hypersphere.engine import masked_max
from hypersphere.engine.streaming.accumulate import STRIP_ELEMENTS
from hypersphere.objectives import PairwiseObjective
from hypersphere.testing.example import some_labels, views
from tests import cases

AlignUniform: Any = type(hs.create_objective("align_uniform"))


def create_symmetric(**changed: Any) -> PairwiseObjective:
    """A descendant of InfoNCE that reads other similarities, or moves less."""
    return type("Changed", (type(hs.create_objective("infonce")),), changed)(symmetric=True)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_streaming_equals_dense_for_every_block_size(name: str, params: dict[str, Any]) -> None:
    hs.testing.assert_streams_exactly(hs.create_objective(name, **params), rows=(1, 2, 3, 5, 10, 11, 50))


@pytest.mark.parametrize("name", ["infonce", "ntxent", "dclw", "supcon", "siglip"])
def test_streaming_equals_dense_for_a_learned_temperature(name: str) -> None:
    hs.testing.assert_streams_exactly(hs.create_objective(name, learnable=True))
    if name != "dclw":  # its weight is detached
        hs.testing.assert_gradient_exact(hs.create_objective(name, learnable=True))


def test_dclw_learned_temperature_against_differences() -> None:
    """The temperature does not enter the detached weight, so differences see its whole gradient."""
    objective = hs.create_objective("dclw", learnable=True).double()
    z1, z2 = views(6, 4)
    objective(z1, z2).backward()
    sides = [hs.create_objective("dclw", temperature=0.1 * 2.718281828459045**s)(z1, z2).item() for s in (1e-5, -1e-5)]
    assert objective.log_temperature.grad.item() == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6)


def test_default_blocks_equal_dense_on_a_large_ragged_batch() -> None:
    z1, z2 = (z.requires_grad_() for z in views(1337, 8))
    objective = hs.create_objective("ntxent")
    with hs.dense():
        expected = torch.autograd.grad(objective(z1, z2), [z1, z2])
    grads = torch.autograd.grad(objective(z1, z2), [z1, z2])
    for a, b in zip(grads, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["infonce", "ntxent", "siglip", "kcl", "supcon", "met"])
def test_reduction_none_lists_the_anchors_and_streams(name: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    weights = torch.linspace(-1, 2, 18, dtype=torch.float64)
    each = hs.create_objective(name, reduction="none").double()
    mean = hs.create_objective(name).double()
    total = hs.create_objective(name, reduction="sum").double()
    inputs = [z1, z2, *each.parameters()]
    vector = each(z1, z2, some_labels(9))
    assert vector.mean().item() == pytest.approx(mean(z1, z2, some_labels(9)).item(), rel=1e-12)
    assert vector.sum().item() == pytest.approx(total(z1, z2, some_labels(9)).item(), rel=1e-12)
    expected = torch.autograd.grad(vector @ weights[: len(vector)], inputs)
    for rows in (1, 4, 9):
        with hs.streaming(rows):
            streamed = each(z1, z2, some_labels(9))
            grads = torch.autograd.grad(streamed @ weights[: len(vector)], inputs)
        for a, b in zip(grads, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_terms_are_differentiable_and_the_loss_among_them_is_the_loss(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params).double().eval()
    z1, z2 = (z.requires_grad_() for z in views(7, 4))
    labels = some_labels(7)
    with hs.dense():
        expected = objective.terms(z1, z2, labels)
        grads = {k: torch.autograd.grad(v, [z1], allow_unused=True, retain_graph=True) for k, v in expected.items()}
        assert expected["loss"].item() == pytest.approx(objective(z1, z2, labels).item(), rel=1e-12)
    with hs.streaming(3):
        terms = objective.terms(z1, z2, labels)
    assert terms.keys() == expected.keys()
    for part, value in terms.items():
        assert value.item() == pytest.approx(expected[part].item(), rel=1e-11, abs=1e-11)
        (grad,) = torch.autograd.grad(value, [z1], allow_unused=True, retain_graph=True)
        wanted = grads[part][0] if grads[part][0] is not None else torch.zeros_like(z1)
        torch.testing.assert_close(grad, wanted, rtol=1e-9, atol=1e-10)


ADDITIVE = cases.PAIRWISE + cases.FEATURES + cases.DETACHED_FEATURES + cases.SAMPLES


@pytest.mark.parametrize(("name", "params"), **cases.named(ADDITIVE))
def test_terms_add_up_to_the_loss(name: str, params: dict[str, Any]) -> None:
    terms = hs.create_objective(name, **params).double().terms(*views(7, 4), some_labels(7))
    parts = sum(value.item() for part, value in terms.items() if part != "loss")
    assert parts == pytest.approx(terms["loss"].item(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["infonce", "ntxent", "siglip", "align_uniform", "mbarlow", "supcon"])
def test_what_is_kept_for_backward_is_linear_in_the_batch(name: str) -> None:
    objective = hs.create_objective(name)
    sizes = 1500, 3000
    kept = []
    for size in sizes:
        z1, z2 = (z.float().requires_grad_() for z in views(size, 16))
        loss = objective(z1, z2, torch.arange(size) % 7)
        seen: set[int] = set()
        total = 0
        nodes = [loss.grad_fn]
        while nodes:
            node = nodes.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            total += sum(t.numel() for t in getattr(node, "saved_tensors", ()) if t is not None)
            nodes += [parent for parent, _ in node.next_functions]
        kept.append(total)
    assert 2 * 16 * sizes[0] <= kept[0] <= 4 * 16 * sizes[0]
    assert kept[1] == pytest.approx(2 * kept[0], rel=0.01)


@pytest.mark.parametrize("name", ["infonce", "ntxent", "align_uniform", "met", "siglip", "supcon", "paradigm", "mmhe"])
def test_no_square_tensor_outlives_its_block(name: str) -> None:
    """Autograd inside the three loops saves vectors, or strips of a block, never a matrix of the whole batch."""
    largest = 0

    def look(tensor: Tensor) -> Tensor:
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    z1, z2 = (z.float().requires_grad_() for z in views(3000, 16))
    with torch.autograd.graph.saved_tensors_hooks(look, lambda t: t):
        hs.create_objective(name)(z1, z2)
    assert 0 < largest <= STRIP_ELEMENTS < 3000**2


def test_double_backward_works_densely_and_is_refused_streaming() -> None:
    z1, z2 = (z.requires_grad_() for z in views(5, 3))
    objective = hs.create_objective("infonce", learnable=True).double()
    assert torch.autograd.gradgradcheck(lambda a, b: objective(a, b), (z1, z2))
    with hs.streaming(2):
        loss = objective(z1, z2)
    with pytest.raises(RuntimeError, match=r"differentiated twice.*hypersphere.dense"):
        torch.autograd.grad(loss, [z1], create_graph=True)


@pytest.mark.parametrize("name", ["supcon", "met", "kcl", "align_uniform", "siglip", "ntxent"])
def test_double_backward_of_every_kind(name: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(4, 3))
    objective = hs.create_objective(name).double()
    labels = torch.tensor([0, 0, 1, -1])
    assert torch.autograd.gradgradcheck(lambda a, b: objective(a, b, labels), (z1, z2))


def test_a_loss_can_be_run_backward_twice_when_retained() -> None:
    z1, z2 = (z.requires_grad_() for z in views(8, 3))
    for context in (hs.dense(), hs.streaming(3)):
        with context:
            loss = hs.create_objective("infonce")(z1, z2)
        first = torch.autograd.grad(loss, [z1], retain_graph=True)[0].clone()
        torch.testing.assert_close(torch.autograd.grad(loss, [z1])[0], first)


@pytest.mark.parametrize("context", [hs.dense, lambda: hs.streaming(2)], ids=["dense", "streaming"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_half_precision_give_float32_values(context: Any, dtype: torch.dtype) -> None:
    z1, z2 = (z.to(dtype) for z in views(6, 8))
    expected = hs.create_objective("infonce")(z1.float(), z2.float())
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16), context():
        value = hs.create_objective("infonce")(a, b)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected)
    value.backward()
    assert a.grad.dtype == dtype


def test_a_gradient_scaler_rescues_small_half_precision_gradients_when_streaming() -> None:
    """The loss scale is applied before the gradient is rounded to float16, as in the dense form."""
    z1, z2 = (100 * z.half() for z in views(64, 8))
    grads = []
    for context in (hs.dense(), hs.streaming(16)):
        a = z1.clone().requires_grad_()
        with context:
            (hs.create_objective("kcl")(a, z2) * 1e-4 * 65536).backward()
        grads.append(a.grad)
    assert (grads[0] != 0).float().mean() > 0.9
    torch.testing.assert_close(grads[1], grads[0], rtol=2e-3, atol=1e-7)


def test_views_that_need_no_gradient_get_none_and_cost_nothing() -> None:
    z1, z2 = views(6, 4)
    z1.requires_grad_()
    with hs.streaming(2):
        hs.create_objective("infonce")(z1, z2).backward()
    assert z1.grad is not None
    assert z2.grad is None
    with torch.no_grad(), hs.streaming(2):
        assert not hs.create_objective("infonce")(z1, z2).requires_grad


def test_mixed_precision_views_are_promoted() -> None:
    z1, z2 = views(6, 4)
    with hs.streaming(4):
        assert hs.create_objective("infonce")(z1, z2.float()).dtype == torch.float64


class NewObjective(PairwiseObjective):
    """As a user would write one."""

    negatives = "both"
    margin: float = 0.3

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        return torch.relu(self.margin - positive + masked_max(negatives, mask)) ** 2


def test_an_objective_of_ones_own_does_everything() -> None:
    objective = NewObjective(margin=0.5)
    assert repr(objective) == "NewObjective(margin=0.5)"
    hs.testing.assert_gradient_exact(objective)
    hs.testing.check(objective, world_size=3)


@pytest.mark.parametrize("t", [0.1, 2.0, 14.9, 15.1, 300.0])
@pytest.mark.parametrize("pairs", ["same", "cross"])
def test_coupled_anchors_keep_their_digits(t: float, pairs: str) -> None:
    """Clusters on opposite sides: the exponentials of two anchors lie as far apart as they can."""
    z1, z2 = views(14, 5)
    z1 = torch.cat([z1[:3].sign() + 1e-3 * z1[:3], z1[3:]]).requires_grad_()
    z2 = z2.requires_grad_()
    objective = hs.create_objective("align_uniform", t=t, pairs=pairs)
    with hs.dense():
        expected = [objective(z1, z2), *torch.autograd.grad(objective(z1, z2), [z1, z2])]
    with hs.streaming(4):
        value_and_grads = [objective(z1, z2), *torch.autograd.grad(objective(z1, z2), [z1, z2])]
    for one, other in zip(value_and_grads, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-13)


class Squared(AlignUniform):
    def combine(self, statistics: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": statistics["potential"].square().mean()}


class EnergyAndMore(AlignUniform):
    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return {**super().per_anchor(positive, negatives, mask), "hardest": masked_max(negatives, mask)}

    def combine(self, statistics: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": super().combine(statistics)["loss"] + statistics["hardest"].mean()}


class CoupledExtremes(PairwiseObjective):
    """Both views, through a reduction whose gradient has few entries; a statistic beside that no loss needs."""

    negatives = "same"
    anchors = "both"
    reductions = ("mean",)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return {"extreme": 2 * masked_max(negatives, mask), "beside": positive.square()}

    def combine(self, statistics: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": torch.logsumexp(statistics["extreme"], dim=0), "beside": statistics["beside"].mean()}


class ReducingItsParameter(PairwiseObjective):
    """By the same function as the similarities."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[0.3, -0.2]], dtype=torch.float64))

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        own = masked_max(self.w, torch.ones(1, 2, dtype=torch.bool))
        return own * masked_max(negatives, mask) - positive


@pytest.mark.parametrize(
    "objective",
    [
        Squared(),
        Squared(pairs="cross"),
        EnergyAndMore(),
        CoupledExtremes(),
        AlignUniform(t=300.0, pairs="cross"),
        ReducingItsParameter(),
        create_symmetric(negatives="same"),
        create_symmetric(negatives="both"),
        create_symmetric(one_sided=True),
        hs.create_objective("paradigm", weight=lambda positive, negatives, mask: mask),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_what_anybody_writes_is_streamed_as_it_is(objective: PairwiseObjective) -> None:
    z1, z2 = (z.requires_grad_() for z in views(12, 5))
    inputs = [z1, z2, *objective.parameters()]
    with hs.dense():
        expected = torch.autograd.grad(objective(z1, z2), inputs, allow_unused=True)
    identity = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), lambda tensor: tensor)
    for context in (nullcontext(), identity):
        with hs.streaming(5), context:
            grads = torch.autograd.grad(objective(z1, z2), inputs, allow_unused=True)
        for one, other in zip(grads, expected, strict=True):
            one, other = (torch.zeros(()) if grad is None else grad for grad in (one, other))
            torch.testing.assert_close(one, other.expand_as(one), rtol=1e-9, atol=1e-13, check_dtype=False)


def test_gradients_can_be_asked_for_again_after_they_were_changed() -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    with hs.streaming(4):
        loss = hs.create_objective("infonce")(z1, z2)
    (first,) = torch.autograd.grad(loss, z1, retain_graph=True)
    kept = first.clone()
    first.mul_(3)
    (second,) = torch.autograd.grad(loss, z1, retain_graph=True)
    torch.testing.assert_close(second, kept)
    several = torch.autograd.grad(loss, z1, torch.tensor([1.0, 2.0], dtype=torch.float64), is_grads_batched=True)
    torch.testing.assert_close(several[0], torch.stack([kept, 2 * kept]))


def test_gradients_handed_out_are_nobody_elses() -> None:
    """The loss's own gradients are handed out without a copy; another backward must not see what became of them."""
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    with hs.streaming(4):
        loss = hs.create_objective("infonce")(z1, z2)
    loss.backward(retain_graph=True)
    once = z1.grad.clone()
    z1.grad.mul_(-5)  # as an optimiser or a user may
    z1.grad = None
    loss.backward()
    torch.testing.assert_close(z1.grad, once)
    both = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    with hs.streaming(4):
        hs.create_objective("infonce")(both, both).backward()
    streamed, both.grad = both.grad, None
    with hs.dense():
        hs.create_objective("infonce")(both, both).backward()
    torch.testing.assert_close(streamed, both.grad)


@pytest.mark.parametrize("temperature", [0.005, 0.05, 5.0])
@pytest.mark.parametrize("rows", [1, 4, 9, 50])
def test_one_matrix_serves_both_directions_of_the_symmetric_form(temperature: float, rows: int) -> None:
    """Also where temperature is learned, and where columns are duplicates or opposites of their rows."""
    z1, z2 = views(9, 5)
    z2 = torch.cat([-z1[:2], z1[2:4], z2[4:]])
    objective = hs.create_objective("infonce", symmetric=True, temperature=temperature, learnable=True).double()
    inputs = [z1.requires_grad_(), z2.requires_grad_(), *objective.parameters()]
    with hs.dense():
        expected = [objective(z1, z2), *torch.autograd.grad(objective(z1, z2), inputs)]
    with hs.streaming(rows):
        value_and_grads = [objective(z1, z2), *torch.autograd.grad(objective(z1, z2), inputs)]
        one_side = torch.autograd.grad(objective(z1.detach(), z2), z2)
    for one, other in zip([*value_and_grads, *one_side], [*expected, expected[2]], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


def test_a_descendant_of_the_symmetric_form_with_another_formula_has_two_directions() -> None:
    class Doubled(type(hs.create_objective("infonce"))):  # type: ignore[misc]
        def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
            return {"loss": 2 * super().per_anchor(positive, negatives, mask)["loss"] + negatives.sum(dim=1)}

    hs.testing.assert_streams_exactly(Doubled(symmetric=True))


class CountingProducts(TorchDispatchMode):
    """Multiplications in matrix products, in place or not."""

    multiplications = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_):
            left, right = args[-2:]
            self.multiplications += left.shape[0] * left.shape[1] * right.shape[1]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "params", "products"),
    [
        ("infonce", {}, 3),
        ("infonce", {"symmetric": True}, 4),
        ("ntxent", {}, 8.25),
        ("supcon", {}, 12),
        ("dclw", {}, 8.25),
        ("align_uniform", {}, 4.25),
        ("align_uniform", {"pairs": "cross"}, 4),
        ("mhe", {}, 2.125),
        ("siglip", {}, 3),
        ("kcl", {}, 2.125),
        ("kcl", {"kernel": "log"}, 3),
        ("dhel", {"energy": "both"}, 4.25),
        ("paradigm", {}, 3),
        ("mmhe", {}, 6),
        ("met", {}, 1),
        ("mhs", {"views": "both"}, 2),
        ("triplet", {}, 1),
    ],
)
def test_no_more_products_than_needed(name: str, params: dict[str, Any], products: float) -> None:
    """Products of N×D by D×N or N×N by N×D.

    In a symmetric matrix of eight blocks 36 of 64 are visited, twice, and each has one product for each of its sides.
    """
    size, dim = 40, 6
    z1, z2 = (z.requires_grad_() for z in views(size, dim))
    objective = hs.create_objective(name, **params).double()
    with hs.streaming(size // 8), CountingProducts() as differentiated:
        objective(z1, z2, some_labels(size)).backward()
    with hs.streaming(size // 8), CountingProducts() as valued, torch.no_grad():
        objective(z1, z2, some_labels(size))
    assert differentiated.multiplications / (size * size * dim) == pytest.approx(products, abs=0.11)
    assert valued.multiplications / (size * size * dim) == len(objective.reads) * _directions_and_widths(objective)


def _directions_and_widths(objective: Any) -> int:
    """Products under no_grad: each matrix once for each direction, "both" being two."""
    return (2 if objective.anchors == "both" else 1) * (2 if "both" in objective.reads else 1)
