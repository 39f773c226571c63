"""Gradients gathered from products: whatever the order, as if each had been added to zeros."""

import pytest
import torch

from hypersphere.engine.target import Target

SIZE, DIM = 10, 3
ORDERS = {
    "in order": [(0, 4), (4, 8), (8, 10)],
    "twice": [(0, 10), (0, 10)],
    "a block, then all": [(0, 4), (0, 10), (4, 8), (8, 10)],
    "all, then blocks": [(0, 10), (0, 4), (4, 10)],
    "backwards": [(6, 10), (0, 6)],
    "a gap": [(0, 2), (5, 10)],
    "an overlap": [(0, 5), (3, 10)],
    "within what is there": [(0, 5), (1, 3)],
    "never finished": [(0, 4)],
    "not from the beginning": [(3, 5)],
    "nothing in it": [(0, 0), (0, 10), (10, 10)],
    "nothing": [],
}


def garbage(like: torch.Tensor) -> torch.Tensor:
    """What memory may hold that nobody has written to."""
    return torch.full_like(like, torch.nan)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("how", ["plain", "weighed", "multiplied before"])
def test_the_sum_of_products(order: list[tuple[int, int]], how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    like, expected = torch.zeros(SIZE, DIM, dtype=torch.float64), torch.zeros(SIZE, DIM, dtype=torch.float64)
    monkeypatch.setattr(torch, "empty_like", garbage)
    target = Target([], [None, like], [], [])
    for start, stop in order:
        left, right = torch.randn(stop - start, 5).double(), torch.randn(5, DIM).double()
        weight = torch.randn(stop - start, 1).double()
        if how == "multiplied before":
            target.add(1, slice(start, stop), left @ right)
            target.add(0, slice(start, stop), left @ right)  # not wanted
        else:
            target.add_product(1, slice(start, stop), left, right, weight if how == "weighed" else None)
            target.add_product(0, slice(start, stop), left, right)
        for i in range(stop - start):
            for k in range(5):
                expected[start + i] += left[i, k] * right[k] * (weight[i] if how == "weighed" else 1)
    found = target.found(1)
    assert (found is None) == (not order)
    gradient = target.gradient(1)
    assert gradient is not None and (found is None or found is gradient)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)
    assert target.found(0) is None and target.gradient(0) is None
    assert target.take(1) is gradient and target.gradient(1) is None


def test_what_was_put_is_added_to() -> None:
    like = torch.zeros(2, 1)
    target = Target([], [like], [], [])
    target.put(0, torch.tensor([[1.0], [2.0]]))
    target.add_product(0, slice(0, 1), torch.ones(1, 1), torch.ones(1, 1))
    taken = target.take(0)
    assert taken is not None and taken.tolist() == [[2.0], [2.0]]
