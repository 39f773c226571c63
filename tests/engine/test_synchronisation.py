"""A sweep does not wait for its device: how often a number is read from it does not grow with the number of blocks.

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

# Objectives of distances or of the hardest negative: rows that nearly coincide are compared once more, and each block
# asks once for each matrix whether there are any.
ONE, TWO = ("mat", "met", "mhs", "mpt", "paradigm", "triplet"), ("geodesic", "koleo", "mmhs", "plus")
NEAR = {**dict.fromkeys(ONE, 1), **dict.fromkeys(TWO, 2)}


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


def assert_constant(objective: Any, for_each_block: int = 0, **given: Any) -> None:
    once, expected = waits(objective, 32, **given)
    often, actual = waits(objective, 4, **given)
    assert often - once == 7 * for_each_block  # eight blocks for one
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-6)


def test_a_wait_is_counted() -> None:
    x = torch.arange(3.0)
    with Waiting() as waiting:
        x.sum().item(), bool(x.any()), x.nonzero(), x[x > 1], x[torch.tensor([1])]
        x[x > 1] = 0
    assert waiting.count == 5


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_no_block_waits_for_its_device(name: str) -> None:
    assert_constant(hs.create_objective(name).eval(), NEAR.get(name, 0))


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
    assert_constant(hs.create_objective(name), NEAR.get(name, 0), **given)


@pytest.mark.parametrize("classes", [2, 16])
def test_no_block_waits_to_know_its_labels(classes: int) -> None:
    assert_constant(hs.create_objective("supcon"), labels=torch.arange(32) % classes)


@pytest.mark.parametrize("name", ["infonce", "ntxent", "siglip"])
def test_no_block_waits_for_what_is_learned(name: str) -> None:
    assert_constant(hs.create_objective(name, learnable=True))
