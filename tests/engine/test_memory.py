"""Memory kept for the next call: nothing of what it held is ever seen, and nobody loses what he holds on to."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import Anchors, memory
from hypersphere.engine.blocks import matrices_in
from hypersphere.engine.memory import BLOCK, kept_memory
from hypersphere.geometry import unit

LIKE = torch.zeros(1)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    memory._kept.clear()
    yield
    memory._kept.clear()


def place(elements: int, like: Tensor = LIKE, purpose: str = BLOCK) -> int:
    with kept_memory() as lend:
        found = lend(purpose, like, elements)
        assert found.shape == (elements,) and found.dtype == like.dtype
        return found.data_ptr()


def kept() -> dict[str, tuple[int, torch.dtype]]:
    return {purpose: (found.numel(), found.dtype) for purpose, found in memory._kept.items()}


def test_is_kept_and_used_again() -> None:
    first = place(100)
    assert place(100) == place(60) == place(100) == first
    assert kept() == {BLOCK: (100, torch.float32)}


def test_every_purpose_has_its_own() -> None:
    with kept_memory() as lend:
        lend("z1", LIKE, 10).fill_(1)
        lend("z2", LIKE, 10).fill_(2)
        assert not memory._kept
    assert {purpose: float(found.sum()) for purpose, found in memory._kept.items()} == {"z1": 10.0, "z2": 20.0}
    assert place(10, purpose="z1") != place(10, purpose="z2")


def test_two_at_a_time_are_not_the_same() -> None:
    with kept_memory() as outside:
        outer = outside(BLOCK, LIKE, 10).fill_(1)
        for number in (2, 3):
            with kept_memory() as inside:
                inside(BLOCK, LIKE, 10).fill_(number)
        assert bool((outer == 1).all())
    assert memory._kept[BLOCK].data_ptr() == outer.data_ptr()


def test_what_somebody_holds_on_to_is_left_alone() -> None:
    with kept_memory() as lend:
        held = lend(BLOCK, LIKE, 10).fill_(1)[3:5].detach()
    with kept_memory() as lend:
        lend(BLOCK, LIKE, 10).fill_(2)
    assert held.tolist() == [1, 1]


def test_nothing_is_used_again_where_torch_cannot_say_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_storage_Use_Count")
    with kept_memory() as lend:
        held = lend(BLOCK, LIKE, 10).fill_(1)
    with kept_memory() as lend:
        lend(BLOCK, LIKE, 10).fill_(2)
    assert bool((held == 1).all())


def test_what_does_not_fit_makes_room() -> None:
    place(10)
    with kept_memory() as lend:
        lend(BLOCK, LIKE, 20)
        assert not memory._kept
    place(5, LIKE.double())
    assert kept() == {BLOCK: (5, torch.float64)}


def test_who_needs_none_lets_go() -> None:
    place(10)
    with kept_memory() as lend:
        found = lend(BLOCK, LIKE, 0)
        assert not memory._kept and found.untyped_storage().nbytes() == 0
    assert not memory._kept


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(memory.KEPT_BYTES, BLOCK, 40)
    monkeypatch.setattr(memory, "KEPT_ROWS_BYTES", 20)
    for elements, expected in ((11, set()), (10, {BLOCK}), (5, {BLOCK, "z1"})):
        memory._kept.clear()
        place(elements, purpose="z1")
        place(elements)
        assert set(kept()) == expected


def test_nothing_is_kept_of_what_failed_or_cannot_be_used_again() -> None:
    with pytest.raises(KeyError), kept_memory() as lend:
        lend(BLOCK, LIKE, 10)
        raise KeyError
    assert not memory._kept
    with torch.inference_mode():
        place(10, torch.zeros(1))
    assert not memory._kept
    place(10)
    with torch.inference_mode(), kept_memory() as lend:
        lend(BLOCK, torch.zeros(1), 10).fill_(1)
    (torch.ones(10, requires_grad=True) * memory._kept[BLOCK]).sum().backward()


def test_matrices_do_not_overlap() -> None:
    matrices = matrices_in(torch.zeros(30), 3, [4, 0, 6])
    for number, matrix in enumerate(matrices, start=1):
        matrix.fill_(number)
    assert [(tuple(m.shape), float(m.sum())) for m in matrices] == [((3, 4), 12.0), ((3, 0), 0.0), ((3, 6), 54.0)]


def views() -> list[Tensor]:
    return [torch.randn(20, 8, requires_grad=True) for _ in range(2)]


# One of each kind of sweep: sums, a symmetric matrix, strips, two sweeps, one-sided, several matrices.
@pytest.mark.parametrize("name", ["infonce", "ntxent", "siglip", "paradigm", "mbarlow", "mmhe", "met", "align_uniform"])
@pytest.mark.parametrize("parts", [False, True], ids=["loss", "terms"])
def test_what_it_held_does_not_matter(name: str, parts: bool) -> None:
    objective = hs.create_objective(name)
    z1, z2 = views()

    def gradients() -> list[Tensor]:
        value = sum(objective.terms(z1, z2).values()) if parts else objective(z1, z2)
        return list(torch.autograd.grad(value, [z1, z2, *objective.parameters()]))

    with hs.dense():
        expected = gradients()
    for anything in (torch.nan, torch.inf, -1e30):
        for purpose in (BLOCK, "z1", "z2"):
            memory._kept[purpose] = torch.full((1000,), anything)
        with hs.streaming(7):
            torch.testing.assert_close(gradients(), expected, rtol=1e-4, atol=1e-6)
        assert set(kept().values()) == {(1000, torch.float32)}  # it was used


def test_views_and_negatives_are_normalised_into_it() -> None:
    objective = hs.create_objective("infonce")
    with hs.streaming(7):
        objective(*views(), negatives=torch.randn(5, 8)).backward()
        first = {purpose: found.data_ptr() for purpose, found in memory._kept.items()}
        objective(*views(), negatives=torch.randn(5, 8)).backward()
    assert first == {purpose: found.data_ptr() for purpose, found in memory._kept.items()}
    assert kept().keys() == {BLOCK, "z1", "z2", "negatives"}


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_nothing_of_one_call_is_changed_by_the_next(reduction: str) -> None:
    objective = hs.create_objective("siglip", reduction=reduction)
    z1, z2 = views()
    with hs.streaming(7):
        value = objective(z1, z2)
        before = value.detach().clone()
        objective(*views()).sum().backward()
        assert torch.equal(value, before)
        value.sum().backward()
        found = [z1.grad, z2.grad]
        copies = [gradient.clone() for gradient in found if gradient is not None]
        objective(*views()).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(copies, found, strict=True) if b is not None)
    with hs.dense():
        torch.testing.assert_close(copies, list(torch.autograd.grad(objective(z1, z2).sum(), [z1, z2])))


class Collector(hs.PairwiseObjective):
    """Keeps the rows it is shown, against all advice."""

    def block(self, anchors: Anchors) -> dict[str, Tensor]:
        self.seen = [*getattr(self, "seen", []), anchors.rows.detach()]
        return {"loss": -anchors.positive}


def test_rows_an_objective_holds_on_to_stay_as_they_are() -> None:
    objective = Collector()
    z1, z2 = views()
    with hs.streaming(20):
        objective(z1, z2)
        objective(*views())
    torch.testing.assert_close(objective.seen[0], unit(z1).detach())
