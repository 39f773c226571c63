"""Objectives that see sums of exponentials alone, streamed: against the plain autograd graph, row by row or whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import masked_logsumexp, masked_max
from hypersphere.engine.objective import MODERATE, usable_scale
from hypersphere.objectives import DCLW, InfoNCE, LogSumObjective
from hypersphere.testing.example import views

LEARNED: list[tuple[str, dict[str, Any]]] = [
    ("infonce", {}),
    ("infonce", {"symmetric": True}),
    ("ntxent", {}),
    ("arccon", {}),
    ("debiased", {}),
    ("dcl", {}),
    ("dcl", {"negatives": "both"}),
    ("dcl_plus", {"temperature": 0.4}),
    ("dclw", {}),
    ("dhel", {}),
    ("dhel", {"energy": "both"}),
    ("dhel", {"energy": "symmetric"}),
]


def values_and_gradients(
    objective: Any, z1: Tensor, z2: Tensor, negatives: Tensor | None = None
) -> list[Tensor | None]:
    inputs = [z for z in (z1, z2, negatives, *objective.parameters()) if z is not None and z.requires_grad]
    loss = objective(z1, z2, negatives=negatives)
    return [loss.detach(), *torch.autograd.grad(loss, inputs, allow_unused=True)]


def assert_same(actual: list[Tensor | None], expected: list[Tensor | None], **tolerance: float) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one is not None and other is not None
        torch.testing.assert_close(one, other, check_dtype=False, **(tolerance or {"rtol": 1e-10, "atol": 1e-13}))


@pytest.mark.parametrize(("name", "params"), LEARNED, ids=str)
@pytest.mark.parametrize("extra", [0, 3])
def test_a_learned_temperature_and_all_rows_are_moved_as_by_autograd(
    name: str, params: dict[str, Any], extra: int
) -> None:
    objective = hs.create_objective(name, learnable=True, **params).double()
    assert usable_scale(objective) is not None
    z1, z2 = (z.requires_grad_() for z in views(11, 5))
    negatives = views(extra, 5, seed=4)[0].requires_grad_() if extra else None
    with hs.dense():
        expected = values_and_gradients(objective, z1, z2, negatives)
        of_one_side = values_and_gradients(objective, z1.detach(), z2, negatives)
    for rows in (1, 4, 11, 50):
        with hs.streaming(rows):
            assert_same(values_and_gradients(objective, z1, z2, negatives), expected)
            assert_same(values_and_gradients(objective, z1.detach(), z2, negatives), of_one_side)


@pytest.mark.parametrize("name", ["infonce", "ntxent", "align_uniform", "kcl", "mhe", "dhel"])
def test_float32_keeps_its_digits_on_many_rows(name: str) -> None:
    z1, z2 = views(700, 16)
    objective = hs.create_objective(name)
    exact = values_and_gradients(objective, z1.requires_grad_(), z2.requires_grad_())
    with hs.streaming(150):
        rounded = values_and_gradients(objective, *(z.detach().float().requires_grad_() for z in (z1, z2)))
    largest = max(float(grad.abs().max()) for grad in exact[1:] if grad is not None)
    assert_same(rounded[:1], exact[:1], rtol=2e-6, atol=1e-6)
    assert_same(rounded[1:], exact[1:], rtol=1e-5, atol=2e-6 * largest)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("above", [False, True])
def test_the_largest_scale_is_far_from_the_ends_of_float32(symmetric: bool, above: bool) -> None:
    """Identical, opposite and other rows, so that exponentials lie as far apart as they can."""
    z1, z2 = views(40, 6)
    z1 = torch.cat([z1[:1].expand(10, -1), -z1[:1].expand(10, -1), z1[20:]])
    z2 = torch.cat([-z1[:20], z2[20:]])
    objective = InfoNCE(temperature=(0.999 if above else 1.0) / MODERATE, symmetric=symmetric)
    assert (usable_scale(objective) is None) == above
    with hs.dense():
        exact = values_and_gradients(objective, z1.requires_grad_(), z2.requires_grad_())
    with hs.streaming(7):
        rounded = values_and_gradients(objective, *(z.detach().float().requires_grad_() for z in (z1, z2)))
    assert_same(rounded, exact, rtol=2e-5, atol=1e-5)


class Cubed(LogSumObjective):
    """As a user would write one, with a scale that is not one over a temperature."""

    negatives = ("same", "other")
    power: float = 3.0

    @property
    def scale(self) -> float:
        return self.power

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Any:
        return {"loss": (logsumexp[0] - positive) ** 3 + 0.5 * logsumexp[1] / num_negatives[1]}


class OneSided(Cubed):
    one_sided = True


class OneSidedAcross(InfoNCE):
    one_sided = True


class Louder(InfoNCE):
    """Another formula of sums, which is what the engine asks for."""

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Any:
        return {"loss": 2 * logsumexp - positive}


class SeesMore(Louder):
    """Another formula of similarities: the one of sums does not say it all any longer."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return {"loss": super().per_anchor(positive, negatives, mask)["loss"] + masked_max(negatives, mask)}


class Unweighed(DCLW):
    """One that says how blocks are made itself."""

    def block(self, anchors: Any) -> Any:
        return super().block(replace(anchors, context=anchors.context + 1))


class Unsure(InfoNCE):
    """Sums are all there is with some settings only."""

    @property
    def scale(self) -> Any:
        return None if self.symmetric else 1 / self.temperature

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Any:
        return {"loss": masked_logsumexp(negatives, mask, 7.0) - positive}


class SaysBoth(InfoNCE):
    """Two formulas in one class, which need not agree."""

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Any:
        return {"loss": logsumexp - positive}

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Any:
        return {"loss": super().per_anchor(positive, negatives, mask)["loss"] + masked_max(negatives, mask)}


class Weighing(InfoNCE):
    """Coordinates do not count alike."""

    def metric(self, rows: Tensor) -> Tensor:
        return torch.linspace(0.2, 1.0, rows.shape[1], dtype=rows.dtype)


class SeesRows(InfoNCE):
    def adjust(self, statistics: Any, anchors: Any) -> Any:
        return {"loss": statistics["loss"] + (anchors.rows**4).sum(dim=1) + (anchors.others**3).sum(dim=1)}


class ATensor(Cubed):
    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Any:
        return logsumexp[0] - positive


@pytest.mark.parametrize(
    ("objective", "asked"),
    [
        (Cubed(), True),
        (OneSided(), True),
        (OneSidedAcross(), True),
        (OneSidedAcross(symmetric=True), True),
        (Louder(), True),
        (Louder(symmetric=True), True),
        (SeesMore(), False),
        (SeesMore(symmetric=True), False),
        (Unweighed(), False),
        (Unsure(), True),
        (Unsure(symmetric=True), False),
        (SaysBoth(), False),
        (Weighing(), False),
        (SeesRows(), True),
        (SeesRows(symmetric=True), True),
        (ATensor(), True),
    ],
    ids=lambda value: repr(value),
)
def test_whatever_a_subclass_overrides_is_streamed_as_it_is(objective: LogSumObjective, asked: bool) -> None:
    assert (objective.sees == "logsumexp") == asked
    hs.testing.assert_streams_exactly(objective)


@pytest.mark.parametrize("negatives", ["other", "cross", ("same", "other")])
def test_a_learned_scale_is_moved_by_similarities_that_move_nothing_else(negatives: Any) -> None:
    one_sided = type("OneSided", (type(hs.create_objective("dhel")),), {"one_sided": True, "negatives": negatives})
    objective = one_sided(learnable=True).double()
    assert usable_scale(objective) is not None
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    values_and_grads = []
    for context in (hs.dense(), hs.streaming(4)):
        with context:
            loss = objective(z1, z2)
        values_and_grads.append(
            [loss, *torch.autograd.grad(loss, [z1, *objective.parameters()], materialize_grads=True)]
        )
    for one, other in zip(*values_and_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda positive, logsumexp: {"energy": logsumexp[0]}, "but no 'loss'"),
        (lambda positive, logsumexp: {"loss": logsumexp[0].mean()}, "must return one number per anchor"),
    ],
)
def test_what_is_made_of_sums_is_checked_streamed_or_not(answer: Any, message: str) -> None:
    class Wrong(Cubed):
        def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Any:
            return answer(positive, logsumexp)

    for context in (hs.dense(), hs.streaming(3)):
        with context, pytest.raises(ValueError, match=message):
            Wrong()(*views(7, 4))


def test_an_objective_of_sums_runs_on_several_processes() -> None:
    hs.testing.assert_distributed_exact(Cubed(), world_size=2)
