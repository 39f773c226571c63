"""The memory of a block: kept for the next call, and nothing of what it held is ever seen."""

from collections.abc import Iterator

import pytest
import torch

import hypersphere as hs
from hypersphere.engine import blocks
from hypersphere.engine.blocks import block_memory, matrices_in

LIKE = torch.zeros(1)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    blocks._kept.clear()
    yield
    blocks._kept.clear()


def place(elements: int, like: torch.Tensor = LIKE) -> int:
    with block_memory(like, elements) as memory:
        assert memory.shape == (elements,) and memory.dtype == like.dtype
        return memory.data_ptr()


def test_is_kept_and_used_again() -> None:
    first = place(100)
    assert place(100) == place(60) == place(100) == first
    assert sum(memory.numel() for memory in blocks._kept) == 100


def test_two_at_a_time_are_not_the_same() -> None:
    with block_memory(LIKE, 10) as outer:
        outer.fill_(1)
        with block_memory(LIKE, 10) as inner:
            inner.fill_(2)
        with block_memory(LIKE, 10) as again:
            again.fill_(3)
        assert bool((outer == 1).all())
    assert len(blocks._kept) == 1 and blocks._kept[0].data_ptr() == outer.data_ptr()


def test_what_does_not_fit_makes_room() -> None:
    place(10)
    with block_memory(LIKE, 20):
        assert not blocks._kept
    place(5, LIKE.double())
    assert [(memory.numel(), memory.dtype) for memory in blocks._kept] == [(5, torch.float64)]


def test_who_needs_none_lets_go() -> None:
    place(10)
    with block_memory(LIKE, 0) as memory:
        assert not blocks._kept and memory.untyped_storage().nbytes() == 0
    assert not blocks._kept


def test_no_more_than_a_block_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT_BYTES", 40)
    place(11)
    assert not blocks._kept
    place(10)
    assert len(blocks._kept) == 1


def test_nothing_is_kept_of_what_failed_or_cannot_be_used_again() -> None:
    with pytest.raises(KeyError), block_memory(LIKE, 10):
        raise KeyError
    assert not blocks._kept
    with torch.inference_mode(), block_memory(torch.zeros(1), 10):
        pass
    assert not blocks._kept
    place(10)
    with torch.inference_mode(), block_memory(torch.zeros(1), 10) as memory:
        memory.fill_(1)
    assert len(blocks._kept) == 1
    (torch.ones(10, requires_grad=True) * blocks._kept[0]).sum().backward()


def test_matrices_do_not_overlap() -> None:
    matrices = matrices_in(torch.zeros(30), 3, [4, 0, 6])
    for number, matrix in enumerate(matrices, start=1):
        matrix.fill_(number)
    assert [(tuple(m.shape), float(m.sum())) for m in matrices] == [((3, 4), 12.0), ((3, 0), 0.0), ((3, 6), 54.0)]


# One of each kind of sweep: sums, a symmetric matrix, strips, two sweeps, one-sided, several matrices.
@pytest.mark.parametrize("name", ["infonce", "ntxent", "siglip", "paradigm", "mbarlow", "mmhe", "met", "align_uniform"])
@pytest.mark.parametrize("parts", [False, True], ids=["loss", "terms"])
def test_what_it_held_does_not_matter(name: str, parts: bool) -> None:
    objective = hs.create_objective(name)
    z1, z2 = (torch.randn(20, 8, requires_grad=True) for _ in range(2))

    def gradients() -> list[torch.Tensor]:
        value = sum(objective.terms(z1, z2).values()) if parts else objective(z1, z2)
        return list(torch.autograd.grad(value, [z1, z2, *objective.parameters()]))

    with hs.dense():
        expected = gradients()
    for anything in (torch.nan, torch.inf, -1e30):
        blocks._kept[:] = [torch.full((1000,), anything)]
        with hs.streaming(7):
            torch.testing.assert_close(gradients(), expected, rtol=1e-4, atol=1e-6)
