"""Negatives of each anchor's own, and negatives that come from outside the batch alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import hypersphere as hs
from hypersphere.objectives.base import within
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests import cases

EVERY = [
    (name, params)
    for name, params in cases.PAIRWISE + cases.WRAPPERS
    if "negatives" in hs.create_objective(name, **params).takes and name not in ("mixup", "released/mixcse")
]


def differentiated(objective: Any, z1: Tensor, z2: Tensor, negatives: Tensor, **given: Any) -> list[Tensor]:
    """The loss and the gradients of both views and of the negatives."""
    leaves = [each.clone().requires_grad_() for each in (z1, z2, negatives)]
    loss = objective(leaves[0], leaves[1], negatives=leaves[2], **given)
    return [loss.detach(), *torch.autograd.grad(loss.sum(), leaves, materialize_grads=True)]


def labels_for(objective: Any, size: int) -> dict[str, Tensor]:
    return {"labels": torch.arange(size) % 2} if objective.labelled or "labels" in objective.needs else {}


def both_ways(objective: Any, *batch: Tensor, **given: Any) -> list[list[Tensor]]:
    """Dense, and in blocks of three anchors."""
    with hs.dense():
        results = [differentiated(objective, *batch, **given)]
    with hs.streaming(3):
        return [*results, differentiated(objective, *batch, **given)]


def assert_alike(one: list[Tensor], other: list[Tensor]) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "params"), **cases.named(EVERY))
def test_anchors_that_own_the_same_negatives_share_them(name: str, params: dict[str, Any]) -> None:
    if name == "guided":  # refused: see below
        return
    objective = hs.create_objective(name, **params)
    (z1, z2), (queue, _) = views(8, 4), views(3, 4)
    given = labels_for(objective, 8)
    shared, _ = both_ways(objective, z1, z2, queue, **given)
    for *results, of_own in both_ways(objective, z1, z2, queue.expand(8, 3, 4), **given):
        assert_alike([*results, of_own.sum(dim=0)], shared)


@pytest.mark.parametrize(("name", "params"), **cases.named(EVERY))
def test_without_the_batch_is_as_if_all_ids_were_equal(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params)
    if "ids" not in objective.takes or objective.labelled:
        return
    (z1, z2), (queue, _) = views(8, 4), views(5, 4)
    if any(getattr(each, "anchors", "") == "both" and each.extra_negatives == "first" for each in within(objective)):
        with pytest.raises(ValueError, match="leaves the rows of the second view without negatives"):
            objective(z1, z2, negatives=queue, in_batch=False)
        return
    ids = {"ids": torch.zeros(8, dtype=torch.int64), "ids_negatives": torch.arange(1, 6)}
    expected, _ = both_ways(objective, z1, z2, queue, **ids)
    for results in both_ways(objective, z1, z2, queue, in_batch=False):
        assert_alike(results, expected)


@pytest.mark.parametrize("in_batch", [True, False])
def test_the_logits_of_infonce_are_the_own_ones(in_batch: bool) -> None:
    """Loops over anchors: own negatives with the anchor's id do not count."""
    (z1, z2), own = views(6, 4), torch.stack([views(6, 4)[0].roll(step, 0) + step for step in range(3)], dim=1)
    ids, ids_own = torch.tensor([5, 1, 2, 3, 4, -1]), torch.tensor([[5, 0, 1], [1, 1, 1], *[[-1, 2, 3]] * 4])
    x, y, n = normalize(z1), normalize(z2), normalize(own, dim=2)
    losses = []
    for i in range(6):
        keys = [y[i]] + [y[j] for j in range(6) if j != i and in_batch]
        keys += [n[i, m] for m in range(3) if ids_own[i, m] != ids[i] or ids[i] < 0]
        logits = torch.stack([x[i] @ key for key in keys]) / 0.1
        losses.append(torch.logsumexp(logits, dim=0) - logits[0])
    objective = hs.create_objective("infonce", temperature=0.1, reduction="none")
    for results in both_ways(objective, z1, z2, own, ids=ids, ids_negatives=ids_own, in_batch=in_batch):
        torch.testing.assert_close(results[0], torch.stack(losses), rtol=1e-12, atol=1e-12)


def test_the_hardest_may_be_an_own_one() -> None:
    (z1, z2), (own, _) = views(5, 4), views(5, 4)
    own = torch.stack([own, z1 + 0.1 * own], dim=1)  # the second is nearest of all
    nearest = torch.cosine_similarity(z1, own[:, 1])
    expected = (0.3 - torch.cosine_similarity(z1, z2) + nearest).clamp_min(0)
    objective = hs.create_objective("mpt", margin=0.3, reduction="none")
    for results in both_ways(objective, z1, z2, own):
        torch.testing.assert_close(results[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["infonce", "met", "dhel", "mmhe", "siglip", "align_uniform"])
def test_exact_on_two_processes_of_a_group(name: str) -> None:
    """Own negatives stay where they are; a queue is shared. The group is a new one."""
    (z1, z2), own, (queue, _) = views(7, 4), torch.stack([views(7, 4)[0] * 2 - 1, views(7, 4)[1]], dim=1), views(4, 4)
    for negatives, in_batch in ((own, True), (own, False), (queue, False)):
        objective = hs.create_objective(name)
        expected = differentiated(objective, z1, z2, negatives, in_batch=in_batch)
        by_rank = workers(2).run(_own_part, name, z1, z2, negatives, in_batch)
        for rank in range(2):
            torch.testing.assert_close(by_rank[rank][0], expected[0], rtol=1e-10, atol=1e-12)
        for place in (1, 2, 3):
            whole = torch.cat([results[place] for results in by_rank]) / 2
            torch.testing.assert_close(whole, expected[place], rtol=1e-9, atol=1e-11)


def _own_part(name: str, z1: Tensor, z2: Tensor, negatives: Tensor, in_batch: bool) -> list[Tensor]:
    group, rank = torch.distributed.new_group([0, 1]), torch.distributed.get_rank()
    own, queue = (slice(0, 2), slice(2, 7))[rank], (slice(0, 1), slice(1, 4))[rank]
    objective = hs.create_objective(name, gather=group)
    part = negatives[queue if negatives.ndim == 2 else own]
    return differentiated(objective, z1[own], z2[own], part, in_batch=in_batch)


def test_two_groups_are_two_batches() -> None:
    z1, z2 = views(6, 4)
    objective = hs.create_objective("infonce")
    expected = [objective(z1[part], z2[part]).item() for part in (slice(0, 4), slice(4, 6))]
    values = workers(3).run(_in_groups, z1, z2)
    assert values == pytest.approx([expected[0], expected[0], expected[1]], rel=1e-12)


def _in_groups(z1: Tensor, z2: Tensor) -> float:
    pair, rank = torch.distributed.new_group([0, 1]), torch.distributed.get_rank()
    own = slice(2 * rank, 2 * rank + 2)
    value: float = hs.create_objective("infonce", gather=pair if rank < 2 else False)(z1[own], z2[own]).item()
    return value


def test_processes_must_agree_on_own_negatives() -> None:
    with pytest.raises(RuntimeError, match="processes differ in the number of negatives of each anchor"):
        workers(2).run(_own_on_the_first, *views(4, 3))


def _own_on_the_first(z1: Tensor, z2: Tensor) -> None:
    negatives = z1.unsqueeze(1) if torch.distributed.get_rank() == 0 else None
    hs.create_objective("infonce", gather=True)(z1, z2, negatives=negatives)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("infonce", {"in_batch": False}, "in_batch=False needs negatives"),
        ("infonce", {"in_batch": False, "negatives": torch.ones(0, 3)}, "in_batch=False needs negatives"),
        ("infonce", {"negatives": torch.ones(3, 2, 3)}, r"negatives of shape \(3, 2, 3\) are each anchor's own, for 4"),
        ("infonce", {"negatives": torch.ones(4, 2, 5)}, "negatives have 5 dimensions but the views have 3"),
        (
            "infonce",
            {"negatives": torch.ones(4, 2, 3), "ids": torch.arange(4), "ids_negatives": torch.arange(4)},
            "ids_negatives must be a tensor of 4 × 2 whole numbers",
        ),
        ("infonce", {"negatives": torch.ones(4, 2, 3), "guide": torch.ones(4, 2)}, "a guide judges the negatives that"),
        ("mixup", {"negatives": torch.ones(2, 3), "in_batch": False}, "mixup mixes negatives of the batch"),
    ],
)
def test_bad_input_gets_one_sentence(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.create_objective(name)(*views(4, 3), **given)


def test_own_negatives_are_not_dissected() -> None:
    with pytest.raises(ValueError, match="dissect takes negatives"):
        hs.dissect(hs.create_objective("infonce"), *views(4, 3), negatives=torch.ones(4, 2, 3))


def test_gather_is_a_group_or_a_flag() -> None:
    with pytest.raises(ValueError, match="infonce's gather must be True, False or a group"):
        hs.create_objective("infonce", gather="yes")
