"""Gradients gathered from products: whatever the order, as if each had been added to zeros."""

import pytest
import torch

from hypersphere.engine.streaming.accumulate import GradAccumulator, block_sizes, slices

SIZE, DIM = 10, 3
CPU, GPU = torch.device("cpu"), torch.device("cuda")
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
    accumulator = GradAccumulator([], [None, like], [], [])
    for start, stop in order:
        left, right = torch.randn(stop - start, 5).double(), torch.randn(5, DIM).double()
        weight = torch.randn(stop - start, 1).double()
        if how == "multiplied before":
            accumulator.add(1, slice(start, stop), left @ right)
            accumulator.add(0, slice(start, stop), left @ right)  # not wanted
        else:
            accumulator.add_product(1, slice(start, stop), left, right, weight if how == "weighed" else None)
            accumulator.add_product(0, slice(start, stop), left, right)
        for i in range(stop - start):
            for k in range(5):
                expected[start + i] += left[i, k] * right[k] * (weight[i] if how == "weighed" else 1)
    gradient = accumulator.get(1)
    assert gradient is not None and accumulator.get(1) is gradient
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)
    assert accumulator.get(0) is None


@pytest.mark.parametrize(("columns", "blocks"), [([100], 2048), ([8192], 2048), ([8192, 8192], 1024), ([2**20], 512)])
def test_blocks_have_about_as_many_elements_however_wide(columns: list[int], blocks: int) -> None:
    rows, strip = block_sizes(columns, None, CPU)
    assert rows == blocks and 1 <= strip * sum(columns) <= 2**21
    assert block_sizes(columns, 7, CPU) == block_sizes(columns, 7, GPU) == (7, 7)


@pytest.mark.parametrize(
    ("free", "reserved", "allocated", "columns", "rows"),
    [
        (16 * 2**30, 0, 0, [65536], 2048),  # as many rows as pay
        (8 * 2**30, 2**30, 2**29, [65536, 65536], 8.5 * 2**30 / 16 / 8 / 2**17),  # what torch holds unused is free too
        (2**27, 0, 0, [2**20], 1),  # hardly any memory: fewer rows than on a CPU
    ],
)
def test_blocks_on_a_gpu_fit_into_its_free_memory(
    free: int, reserved: int, allocated: int, columns: list[int], rows: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: reserved)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated)
    assert block_sizes(columns, None, GPU) == (rows, max(1, rows // 4))


def test_slices_cover_all_rows_once_and_one_of_no_rows_is_empty() -> None:
    assert [list(range(7, 18)[s.start - 7 : s.stop - 7]) for s in slices(7, 18, 4)] == [
        [7, 8, 9, 10], [11, 12, 13, 14], [15, 16, 17]]  # fmt: skip
    assert list(slices(5, 5, 4)) == [slice(5, 5)]
