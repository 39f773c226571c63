"""A visit does not wait for its device: how often a number is read from it does not grow with the number of blocks.

No GPU is needed. Every tensor claims not to be on a processor, so that the engine takes the path of other devices, and
a dispatch mode counts the operations for which a GPU's queue has to be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import hypersphere as hs
from hypersphere.testing.example import views
from tests.cases import TWO_VIEWS

# What .item(), float(), bool() and int() of a tensor call, and operations whose result has a size that depends on
# numbers.
WAITING = {"_local_scalar_dense", "nonzero", "repeat_interleave", "bincount", "masked_select", "_unique2", "equal"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}  # by a mask: the same

# Formulas of all similarities that take distances or a nearest row.
MET = {"dissipation": "euclidean", "weight": "euclidean", "ratio": "euclidean"}
NEAR: dict[str, dict[str, str]] = {"geodesic": {}, "mmhs": {}, "paradigm": MET}


class Waiting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name in INDEXING and any(each is not None and each.dtype == torch.bool for each in args[1])
        self.count += name in WAITING or by_mask
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda _: False), raising=False)
    yield


def waits(objective: Any, rows: int, **given: Any) -> tuple[int, torch.Tensor]:
    """How often one step waits, and the gradient."""
    z1, z2 = (z.float().requires_grad_() for z in views(32, 6))
    with Waiting() as waiting, hs.streaming(rows):
        objective(z1, z2, **given).backward()
    assert z1.grad is not None
    return waiting.count, z1.grad


def assert_constant(objective: Any, **given: Any) -> None:
    once, expected = waits(objective, 32, **given)
    often, actual = waits(objective, 4, **given)
    assert often == once  # eight blocks, and one
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-6)


def test_a_wait_is_counted() -> None:
    x = torch.arange(3.0)
    with Waiting() as waiting:
        x.sum().item(), bool(x.any()), x.nonzero(), x[x > 1], x[torch.tensor([1])]
        x[x > 1] = 0
    assert waiting.count == 5


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_no_block_waits_for_its_device(name: str) -> None:
    assert_constant(hs.create_objective(name).eval())


GIVEN: dict[str, dict[str, torch.Tensor]] = {
    "few equal ids": {"ids": torch.arange(32) // 2},
    "many equal ids": {"ids": torch.arange(32) // 16},
    "a guide": {"guide": views(32, 5, seed=3)[0]},
    "negatives": {"negatives": views(9, 6, seed=4)[0].float()},
    "negatives with ids": {
        "negatives": views(9, 6, seed=4)[0].float(), "ids": torch.arange(32) // 2, "ids_negatives": torch.arange(9)
    },
}  # fmt: skip


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("name", ["infonce", "ntxent", "met", "siglip"])
def test_no_block_waits_to_know_its_negatives(name: str, given: dict[str, Any]) -> None:
    assert_constant(hs.create_objective(name), **given)


@pytest.mark.parametrize("classes", [2, 16])
def test_no_block_waits_to_know_its_labels(classes: int) -> None:
    assert_constant(hs.create_objective("supcon"), labels=torch.arange(32) % classes)


@pytest.mark.parametrize("name", ["infonce", "ntxent", "siglip"])
def test_no_block_waits_for_what_is_learned(name: str) -> None:
    assert_constant(hs.create_objective(name, learnable=True))


def near_rows(num_near: int) -> tuple[torch.Tensor, torch.Tensor]:
    """32 rows of float32 in two views, ``num_near`` of them about 1e-4 apart, where float32 cosines are all 1."""
    z1, z2 = (z.float() for z in views(32, 6))
    z1[:num_near] = z1[0] + 1e-4 * z1[:num_near]
    return z1, z1 + 2e-4 * z2


@pytest.mark.parametrize("num_near", [3, 32])  # a few rivals each, and so many that a product compares them
@pytest.mark.parametrize("rows", [4, 32])
def test_the_nearest_negative_is_decided_by_distance_on_a_device_too(num_near: int, rows: int) -> None:
    z1, z2 = near_rows(num_near)
    exact = [z.double().requires_grad_() for z in (z1, z2)]
    x, y = (torch.nn.functional.normalize(z) for z in exact)
    distances = (x.unsqueeze(1) - y).norm(dim=2)
    nearest = distances.masked_fill(torch.eye(32, dtype=torch.bool), torch.inf).amin(dim=1)
    expected = (distances.diagonal() - nearest + 0.45).relu().mean()
    ours = [z.clone().requires_grad_() for z in (z1, z2)]
    with hs.streaming(rows):
        loss = hs.create_objective("met")(*ours)
    loss.backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    for z, reference in zip(ours, torch.autograd.grad(expected, exact), strict=True):
        # Rows of float32, 6e-8 from where they should be, give the direction between two of them, 1e-4 apart.
        assert z.grad is not None
        torch.testing.assert_close(z.grad.double(), reference, rtol=0, atol=1e-2 * reference.norm(dim=1).max().item())


@pytest.mark.parametrize("terms", [False, True])
@pytest.mark.parametrize("num_near", [3, 32])
@pytest.mark.parametrize("name", NEAR)
def test_distances_of_near_rows_are_those_of_a_processor(
    name: str, num_near: int, terms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = hs.create_objective(name, **NEAR[name])

    def computed(rows: int) -> list[torch.Tensor]:
        views = [z.clone().requires_grad_() for z in near_rows(num_near)]
        with hs.streaming(rows):
            values = objective.terms(*views) if terms else {"loss": objective(*views)}
        sum(value for value in values.values() if value.requires_grad).backward()
        return [each.detach() for each in values.values()] + [z.grad for z in views if z.grad is not None]

    of_device = computed(4)
    monkeypatch.undo()
    for actual, expected in zip(of_device, computed(4), strict=True):
        # Directions between rows 1e-4 apart, added in another order; without their distances half of it is wrong.
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-3 * expected.abs().max().item())


@pytest.mark.parametrize("name", ["koleo", *NEAR])
def test_a_few_near_rows_are_asked_for_once(name: str) -> None:
    z1, z2 = near_rows(3)
    counts = []
    for rows in (4, 32):
        with Waiting() as waiting, hs.streaming(rows):
            hs.create_objective(name)(z1.clone().requires_grad_(), z2.clone().requires_grad_()).backward()
        counts.append(waiting.count)
    assert counts[0] == counts[1]
