"""Objectives that see sums of exponentials alone, streamed: against the plain autograd graph, row by row or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import masked_logsumexp, masked_max, weighted_sum
from hypersphere.engine.listed import BlockSlope, Few, Listed, Scaled
from hypersphere.engine.sums import LARGEST_SCALE, log_sums_of
from hypersphere.objectives import DCLW, InfoNCE, LogSumObjective, PairwiseObjective
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


def assert_same(found: list[Tensor | None], expected: list[Tensor | None], **tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one is not None and other is not None
        torch.testing.assert_close(one, other, check_dtype=False, **(tolerance or {"rtol": 1e-10, "atol": 1e-13}))


@pytest.mark.parametrize(("name", "params"), LEARNED, ids=str)
@pytest.mark.parametrize("extra", [0, 3])
def test_a_learned_temperature_and_all_rows_are_moved_as_by_autograd(
    name: str, params: dict[str, Any], extra: int
) -> None:
    objective = hs.create_objective(name, learnable=True, **params).double()
    assert log_sums_of(objective) is not None
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
        found = values_and_gradients(objective, *(z.detach().float().requires_grad_() for z in (z1, z2)))
    largest = max(float(slope.abs().max()) for slope in exact[1:] if slope is not None)
    assert_same(found[:1], exact[:1], rtol=2e-6, atol=1e-6)
    assert_same(found[1:], exact[1:], rtol=1e-5, atol=2e-6 * largest)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("above", [False, True])
def test_the_largest_scale_is_far_from_the_ends_of_float32(symmetric: bool, above: bool) -> None:
    """Identical, opposite and other rows, so that exponentials lie as far apart as they can."""
    z1, z2 = views(40, 6)
    z1 = torch.cat([z1[:1].expand(10, -1), -z1[:1].expand(10, -1), z1[20:]])
    z2 = torch.cat([-z1[:20], z2[20:]])
    objective = InfoNCE(temperature=(0.999 if above else 1.0) / LARGEST_SCALE, symmetric=symmetric)
    assert (log_sums_of(objective) is None) == above
    with hs.dense():
        exact = values_and_gradients(objective, z1.requires_grad_(), z2.requires_grad_())
    with hs.streaming(7):
        found = values_and_gradients(objective, *(z.detach().float().requires_grad_() for z in (z1, z2)))
    assert_same(found, exact, rtol=2e-5, atol=1e-5)


class Cubed(LogSumObjective):
    """As a user would write one, with a scale that is not one over a temperature."""

    negatives = ("same", "other")
    power: float = 3.0

    @property
    def scale(self) -> float:
        return self.power

    def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Any:
        return {"loss": (sums[0] - positive) ** 3 + 0.5 * sums[1] / number}


class OneSided(Cubed):
    one_sided = True


class OneSidedAcross(InfoNCE):
    one_sided = True


class Louder(InfoNCE):
    """Another formula of sums, which is what the engine asks for."""

    def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Any:
        return {"loss": 2 * sums[0] - positive}


class SeesMore(Louder):
    """Another formula of similarities: the one of sums does not say it all any longer."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Any:
        return {"loss": super().per_anchor(positive, negatives, mask)["loss"] + masked_max(negatives, mask)}


class Unweighed(DCLW):
    def block(self, anchors: Any) -> Any:
        return PairwiseObjective.block(self, anchors)


class Unsure(InfoNCE):
    """Sums are all there is with some settings only."""

    @property
    def scale(self) -> Any:
        return None if self.symmetric else 1 / self.temperature

    def otherwise(self, positive: Tensor, negatives: Any, mask: Tensor) -> Any:
        return {"loss": masked_logsumexp(negatives, mask, 7.0) - positive}


class SaysBoth(InfoNCE):
    """Two formulas in one class, which need not agree."""

    def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Any:
        return {"loss": sums[0] - positive}

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Any:
        return {"loss": super().per_anchor(positive, negatives, mask)["loss"] + masked_max(negatives, mask)}


class Weighing(InfoNCE):
    """Coordinates do not count alike."""

    def metric(self, rows: Tensor) -> Tensor:
        return torch.linspace(0.2, 1.0, rows.shape[1], dtype=rows.dtype)


class SeesRows(InfoNCE):
    def block(self, anchors: Any) -> Any:
        return self.with_rows(super().block(anchors), anchors)

    def answer(self, anchors: Any, sums: Sequence[Tensor], number: Tensor) -> Any:
        return self.with_rows(super().answer(anchors, sums, number), anchors)

    def with_rows(self, found: Any, anchors: Any) -> Any:
        return {"loss": found["loss"] + (anchors.rows**4).sum(dim=1) + (anchors.others**3).sum(dim=1)}


class ATensor(Cubed):
    def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Any:
        return sums[0] - positive


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
def test_what_anybody_says_of_sums_is_streamed_as_it_is(objective: LogSumObjective, asked: bool) -> None:
    assert (log_sums_of(objective) is not None) == asked
    hs.testing.assert_streams_exactly(objective)


@pytest.mark.parametrize("negatives", ["other", "cross", ("same", "other")])
def test_a_learned_scale_is_moved_by_similarities_that_move_nothing_else(negatives: Any) -> None:
    one_sided = type("OneSided", (type(hs.create_objective("dhel")),), {"one_sided": True, "negatives": negatives})
    objective = one_sided(learnable=True).double()
    assert log_sums_of(objective) is not None
    z1, z2 = (z.requires_grad_() for z in views(9, 5))
    found = []
    for context in (hs.dense(), hs.streaming(4)):
        with context:
            loss = objective(z1, z2)
        found.append([loss, *torch.autograd.grad(loss, [z1, *objective.parameters()], materialize_grads=True)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda positive, sums: {"energy": sums[0]}, "but no 'loss'"),
        (lambda positive, sums: {"loss": sums[0].mean()}, "must return one number per anchor"),
    ],
)
def test_what_is_made_of_sums_is_checked_streamed_or_not(answer: Any, message: str) -> None:
    class Wrong(Cubed):
        def of_sums(self, positive: Tensor, sums: Sequence[Tensor], number: Tensor) -> Any:
            return answer(positive, sums)

    for context in (hs.dense(), hs.streaming(3)):
        with context, pytest.raises(ValueError, match=message):
            Wrong()(*views(7, 4))


def test_an_objective_of_sums_runs_on_several_processes() -> None:
    hs.testing.assert_distributed_exact(Cubed(), world_size=2)


def test_one_that_says_nothing_is_told() -> None:
    class Silent(LogSumObjective):
        temperature: float = 1.0

    with pytest.raises(TypeError, match="Silent must define of_sums"):
        Silent()(*views(4, 3))


# ---------------------------------------------------------------------------------------------------------
# gradients that are listed instead of written down: few entries, or a matrix times one factor for each row


class Hardest(PairwiseObjective):
    """Few entries, of two matrices."""

    negatives = ("cross", "same")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Tensor:
        return masked_max(negatives[0], mask) ** 2 - positive * masked_max(negatives[1], mask)


class HardestAndAll(PairwiseObjective):
    """Few entries beside a whole gradient, and similarities used after their extreme was looked for."""

    negatives = "both"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Tensor:
        hardest = masked_max(negatives, mask)
        return hardest + (negatives**3).sum(dim=1) + masked_logsumexp(negatives, mask, 3.0) - positive


class WeighedByItself(PairwiseObjective):
    """Weights that are the similarities' own memory, whose gradient is written there too."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Tensor:
        return masked_logsumexp(negatives, mask, 5.0) + weighted_sum(negatives.detach(), negatives) - positive


class WeighedByAnother(PairwiseObjective):
    negatives = ("cross", "same")

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Tensor, *relatives: Tensor) -> Tensor:
        cross, same = negatives
        first = masked_logsumexp(cross, mask, 2.0) + weighted_sum(same.detach(), cross)
        return first + weighted_sum(cross.detach(), same) + masked_max(same, mask) - positive


OBJECTIVES = [Hardest(), HardestAndAll(), WeighedByItself(), WeighedByAnother(), hs.create_objective("met")]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: type(objective).__name__)
@pytest.mark.parametrize("extra", [0, 40])
def test_listed_gradients_are_those_of_autograd(objective: PairwiseObjective, extra: int) -> None:
    z1, z2 = (z.requires_grad_() for z in views(60, 5))
    negatives = views(extra, 5, seed=4)[0].requires_grad_() if extra else None
    with hs.dense():
        expected = values_and_gradients(objective, z1, z2, negatives)
    with hs.streaming(17):
        found = values_and_gradients(objective, z1, z2, negatives)
    assert_same(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kinds", ["ff", "fs", "sf", "dff", "fdf", "fsf", "nfd", "fnn", "nnn", "dsb", "fbn"])
@pytest.mark.parametrize("many", [False, True])
def test_a_block_is_put_together_of_whatever_its_strips_list(kinds: str, many: bool) -> None:
    """Of each strip: few entries, a scaled matrix, a matrix, both of these, nothing."""
    generator = torch.Generator().manual_seed(1)
    columns, rows = 40, 3
    memory = torch.full((rows * len(kinds), columns), torch.nan)
    expected = torch.zeros_like(memory)
    block = BlockSlope(lambda: memory)
    for number, kind in enumerate(kinds):
        strip, listed = slice(rows * number, rows * (number + 1)), Listed(memory)
        goal, slope = expected[strip], None
        if kind in "fsdb":  # few entries are among all of them; some twice
            line = torch.randint(rows, (30 if many else 5, 1), generator=generator)
            place = torch.randint(columns, line.shape, generator=generator)
            values = torch.randn(line.shape, generator=generator)
            listed.few.append(Few(line, place, values))
            goal.index_put_((line, place), values, accumulate=True)
        if kind in "sb":
            for _ in range(2):
                matrix, factor = torch.randn(rows, columns, generator=generator), torch.randn(rows, generator=generator)
                listed.scaled.append(Scaled(matrix, factor))
                goal += matrix * factor.unsqueeze(1)
        if kind in "db":
            slope = torch.randn(rows, columns, generator=generator)
            goal += slope
        block.add(strip, slope, listed)
    block.settle(len(memory))
    if block.matrix is None:
        assert not set(kinds) & set("sdb") and (not many or kinds == "nnn" or kinds == "fnn")
        found = torch.zeros_like(memory)
        for few in block.few:
            few.add_to(found)
    else:
        found = block.matrix
    torch.testing.assert_close(found, expected)
