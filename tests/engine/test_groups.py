"""Rows of equal ids are no negatives of each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine.groups import Groups
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests import cases

IDS = [3, -1, 3, 7, 3, -1, 7, 9]
UNCOUPLED = [(n, p) for n, p in cases.SMOOTH if not (o := hs.create_objective(n, **p)).coupled and not o.labelled]


def gradients(objective: Any, z1: Tensor, z2: Tensor, **given: Any) -> list[Tensor]:
    z1, z2 = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    loss = objective(z1, z2, **given)
    return [loss.detach(), *torch.autograd.grad(loss.sum(), [z1, z2], materialize_grads=True)]


def test_members_are_listed_as_loops_list_them() -> None:
    rows, asked = torch.tensor([5, -1, 2, 5, 5, 0]), torch.tensor([5, 0, -1, 4, 2])
    pairs = {(i, j) for i, a in enumerate(asked.tolist()) for j, b in enumerate(rows.tolist()) if a == b and a >= 0}
    line, member = Groups(rows).members(asked)
    assert set(zip(line.tolist(), member.tolist(), strict=True)) == pairs
    assert len(line) == len(pairs)
    assert Groups(rows).sizes(asked).tolist() == [3, 1, 0, 0, 1]
    assert {tuple(each) for each in Groups(rows).equal(asked).nonzero().tolist()} == pairs


@pytest.mark.parametrize("block", [None, 3], ids=["dense", "streamed"])
@pytest.mark.parametrize(("name", "params"), **cases.named(UNCOUPLED))
def test_an_anchor_sees_the_batch_without_its_equals(name: str, params: dict[str, Any], block: int | None) -> None:
    """The loss of an anchor is that in a batch from which the other rows of its id are really absent."""
    z1, z2 = views(8, 5)
    negatives, extra_ids = views(3, 5)[0], [7, -1, 3]
    objective = hs.create_objective(name, **params, reduction="none")
    given = {"negatives": negatives, "ids": torch.tensor(IDS), "ids_negatives": torch.tensor(extra_ids)}
    if block is None:
        losses = objective(z1, z2, **given)
    else:
        with hs.streaming(block):
            losses = objective(z1, z2, **given)
    for i, own in enumerate(IDS):
        kept = [i] + [j for j, other in enumerate(IDS) if j != i and (other != own or own < 0)]
        more = [k for k, other in enumerate(extra_ids) if other != own or own < 0]
        alone = objective(z1[kept], z2[kept], negatives=negatives[more])
        for first, whole in ((0, i), (len(kept), 8 + i))[: len(losses) // 8]:
            torch.testing.assert_close(losses[whole], alone[first], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE + cases.WRAPPERS))
def test_ids_that_all_differ_change_nothing(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params)
    if "ids" not in objective.takes:
        return
    z1, z2 = views(6, 4)
    for ids in (torch.arange(6), torch.full((6,), -1)):
        for one, other in zip(gradients(objective, z1, z2), gradients(objective, z1, z2, ids=ids), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("many", [False, True], ids=["few equal", "many equal"])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE + cases.WRAPPERS))
def test_streamed_is_dense(name: str, params: dict[str, Any], many: bool) -> None:
    objective = hs.create_objective(name, **params)
    if "ids" not in objective.takes:
        return
    z1, z2 = views(16, 4)
    ids = torch.arange(16) % 2 if many else torch.tensor([*range(14), 3, 3])
    with hs.dense():
        dense = gradients(objective, z1, z2, ids=ids)
    for rows in (3, 16):
        with hs.streaming(rows):
            for one, other in zip(dense, gradients(objective, z1, z2, ids=ids), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE))
def test_an_anchor_without_negatives_leaves_the_rest_finite(name: str, params: dict[str, Any]) -> None:
    z1, z2 = views(6, 4)
    objective = hs.create_objective(name, **params)
    for ids in (torch.zeros(6, dtype=torch.int64), torch.tensor([0, 0, 0, 0, 0, 1])):
        assert all(each.isfinite().all() for each in gradients(objective, z1, z2, ids=ids))


@pytest.mark.parametrize("name", ["infonce", "ntxent", "arccon", "dcl_plus", "debiased", "mpt", "met", "mat"])
def test_without_any_negative_a_softmax_or_hinge_is_0(name: str) -> None:
    z1, z2 = views(5, 4)
    for each in gradients(hs.create_objective(name), z1, z2, ids=torch.zeros(5, dtype=torch.int64)):
        torch.testing.assert_close(each, torch.zeros_like(each))


@pytest.mark.parametrize("name", ["dcl", "dhel"])
def test_without_any_negative_the_alignment_stays(name: str) -> None:
    z1, z2 = views(5, 4)
    objective = hs.create_objective(name, temperature=0.5)
    loss = objective(z1, z2, ids=torch.zeros(5, dtype=torch.int64))
    assert loss.item() == pytest.approx(-torch.cosine_similarity(z1, z2).mean().item() / 0.5)


def test_infonce_is_the_cross_entropy_without_those_logits() -> None:
    z1, z2 = views(8, 5)
    logits = torch.nn.functional.normalize(z1) @ torch.nn.functional.normalize(z2).T / 0.1
    for i, one in enumerate(IDS):
        for j, other in enumerate(IDS):
            if i != j and one == other >= 0:
                logits[i, j] = -torch.inf
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(8))
    loss = hs.create_objective("infonce", temperature=0.1)(z1, z2, ids=torch.tensor(IDS))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("rows", [7, 40])
def test_few_equal_ids_are_listed_as_loops_find_them(rows: int) -> None:
    z1, z2 = views(40, 5)
    ids = [*range(36), 3, 3, 20, -1]
    logits = torch.nn.functional.normalize(z1) @ torch.nn.functional.normalize(z2).T / 0.1
    for i, one in enumerate(ids):
        for j, other in enumerate(ids):
            if i != j and one == other >= 0:
                logits[i, j] = -torch.inf
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(40))
    objective = hs.create_objective("infonce", temperature=0.1)
    with hs.streaming(rows):
        assert objective(z1, z2, ids=torch.tensor(ids)).item() == pytest.approx(expected.item(), rel=1e-12)
    with hs.dense():
        assert objective(z1, z2, ids=torch.tensor(ids)).item() == pytest.approx(expected.item(), rel=1e-12)


def test_supcon_keeps_rows_of_the_anchors_label() -> None:
    z1, z2 = views(6, 4)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    objective = hs.create_objective("supcon")
    assert objective(z1, z2, labels, ids=labels).item() == objective(z1, z2, labels).item()


SPREAD = [("infonce", {}), ("infonce", {"pool": "all"}), ("ntxent", {}), ("met", {}), ("kcl", {}), ("mmhe", {}),
          ("align_uniform", {}), ("siglip", {}), ("mv_infonce", {}), ("mixup", {})]  # fmt: skip


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize(("name", "params"), **cases.named(SPREAD))
def test_several_processes_with_uneven_shares(name: str, params: dict[str, Any], world_size: int) -> None:
    (z1, z2), guide = views(7, 4), views(7, 3)[0]
    ids = torch.tensor([4, -1, 4, 2, 2, -1, 4])
    for given in ({"ids": ids}, {"guide": guide}):
        expected = gradients(hs.create_objective(name, **params), z1, z2, **given)
        by_rank = workers(world_size).run(_own_part, name, params, z1, z2, given)
        for value, _ in by_rank:
            torch.testing.assert_close(value, expected[0], rtol=1e-10, atol=1e-12)
        grads = torch.cat([grad for _, grad in by_rank]) / world_size
        torch.testing.assert_close(grads, expected[1], rtol=1e-9, atol=1e-12)


def _own_part(
    name: str, params: dict[str, Any], z1: Tensor, z2: Tensor, given: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    own = ([slice(0, 2), slice(2, 7)] if size == 2 else [slice(0, 3), slice(3, 4), slice(4, 7)])[rank]
    objective = hs.create_objective(name, **params, gather=True)
    loss, grad, _ = gradients(objective, z1[own], z2[own], **{key: value[own] for key, value in given.items()})
    return loss, grad


def test_the_processes_must_agree_on_ids() -> None:
    z1, z2 = views(4, 3)
    with pytest.raises(RuntimeError, match="processes differ in the presence of ids"):
        workers(2).run(_ids_on_the_first, z1, z2)


def _ids_on_the_first(z1: Tensor, z2: Tensor) -> None:
    ids = torch.arange(4) if torch.distributed.get_rank() == 0 else None
    hs.create_objective("infonce", gather=True)(z1, z2, ids=ids)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ids": torch.zeros(3)}, "ids must be a tensor of 4 whole numbers"),
        ({"ids": torch.zeros(4)}, r"ids must be whole numbers \(-1: equal to nothing\), not torch.float32"),
        ({"ids_negatives": torch.arange(2)}, "ids_negatives need ids"),
        ({"ids": torch.arange(4), "ids_negatives": torch.arange(2)}, "ids_negatives need negatives"),
        ({"scores": torch.ones(4)}, "infonce does not grade pairs: it takes no scores"),
        ({"views": (torch.ones(4, 3),)}, "infonce compares two views; for more take the objective 'pairwise'"),
    ],
)
def test_bad_input_gets_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.create_objective("infonce")(*views(4, 3), **given)


def test_features_take_no_ids() -> None:
    with pytest.raises(ValueError, match="vicreg compares features, not pairs: it takes no ids"):
        hs.create_objective("vicreg")(*views(4, 3), ids=torch.arange(4))
