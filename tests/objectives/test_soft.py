"""X-CLR: targets from a guide."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests import reference as ref


def loops(z1: Tensor, z2: Tensor, guides: tuple[Tensor, Tensor], tau: float, graph_tau: float) -> float:
    """Cross-entropy of two softmaxes, row by row."""
    z, g = ([*ref.unit_rows(a.numpy()), *ref.unit_rows(b.numpy())] for a, b in ((z1, z2), guides))
    total = 0.0
    for a in range(len(z)):
        others = [b for b in range(len(z)) if b != a]
        p, q = ([ref.dot(x[a], x[b]) / t for b in others] for x, t in ((z, tau), (g, graph_tau)))
        for log_p, log_q in zip(p, q, strict=True):
            total -= math.exp(log_q - ref.logsumexp(q)) * (log_p - ref.logsumexp(p))
    return total / len(z)


def guides(size: int) -> tuple[Tensor, Tensor]:
    one, two = views(size, 3)
    return one.cos(), two.sin()


def test_it_is_the_cross_entropy_with_the_guide() -> None:
    z1, z2 = views(7, 4)
    one, two = guides(7)
    for given, both in ((one, (one, one)), ((one, two), (one, two))):
        objective = hs.create_objective("xclr", temperature=0.2, graph_temperature=0.3)
        for block in (None, 3):
            with hs.dense() if block is None else hs.streaming(block):
                value = objective(z1, z2, guide=given)
            assert value.item() == pytest.approx(loops(z1, z2, both, 0.2, 0.3), rel=1e-12)


def test_a_sharp_target_is_one_positive_or_the_rows_of_a_class() -> None:
    z1, z2 = (z.requires_grad_() for z in views(6, 4))
    labels = torch.tensor([0, 1, 0, 2, 1, 0])
    sharp = hs.create_objective("xclr", temperature=0.3, graph_temperature=1e-3)
    cases = [
        (hs.create_objective("ntxent", temperature=0.3)(z1, z2), torch.eye(6, dtype=torch.float64)),
        (hs.create_objective("supcon", temperature=0.3)(z1, z2, labels), torch.eye(3, dtype=torch.float64)[labels]),
    ]
    for expected, guide in cases:
        value = sharp(z1, z2, guide=guide)
        torch.testing.assert_close(value, expected, rtol=1e-11, atol=1e-12)
        for one, two in zip(*(torch.autograd.grad(each, [z1, z2]) for each in (value, expected)), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_it_is_never_below_the_entropy_of_its_targets_and_collapses_to_a_logarithm() -> None:
    z1, z2 = views(6, 4)
    guide, _ = guides(6)
    objective = hs.create_objective("xclr", temperature=0.5, graph_temperature=0.5)
    entropy = objective(guide, guide, guide=guide).item()
    assert entropy == pytest.approx(loops(guide, guide, (guide, guide), 0.5, 0.5), rel=1e-12)
    assert objective(z1, z2, guide=guide).item() > entropy
    assert objective(torch.ones(6, 4), torch.ones(6, 4), guide=guide).item() == pytest.approx(math.log(11), rel=1e-6)


def test_degenerate_rows_have_finite_gradients() -> None:
    for x in (torch.eye(2), torch.ones(2, 2), torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.zeros(2, 2)):
        for guide in (torch.eye(2), torch.ones(2, 3), torch.zeros(2, 3)):
            z = x.clone().requires_grad_()
            value = hs.create_objective("xclr")(z, -z, guide=guide)
            assert value.isfinite() and torch.autograd.grad(value, z)[0].isfinite().all()


def test_the_guide_is_its_target_and_nothing_else() -> None:
    z1, z2 = views(5, 4)
    objective = hs.create_objective("xclr")
    with pytest.raises(ValueError, match="xclr needs guide"):
        objective(z1, z2)
    with pytest.raises(ValueError, match="from their guide: it takes no ids"):
        objective(z1, z2, guide=z1, ids=torch.arange(5))
    for base in ("xclr", objective):
        with pytest.raises(ValueError, match="guided's base must have no use of its own for a guide"):
            hs.create_objective("guided", base=base)
    with pytest.raises(ValueError, match="a mixed row has none"):
        hs.create_objective("mixup", base="xclr")
    with pytest.raises(ValueError, match="at least two instances"):
        objective(z1[:1], z2[:1], guide=z1[:1])


@pytest.mark.parametrize("world_size", [2, 3])
def test_several_processes_have_the_gradient_of_one(world_size: int) -> None:
    z1, z2 = (z.requires_grad_() for z in views(7, 4))
    both = guides(7)
    value = hs.create_objective("xclr")(z1, z2, guide=both)
    grads = torch.autograd.grad(value, [z1, z2])
    by_rank = workers(world_size).run(_part, z1.detach(), z2.detach(), both)
    for shared, _ in by_rank:
        assert shared == pytest.approx(value.item(), rel=1e-12)
    for view in (0, 1):
        whole = torch.cat([own[view] for _, own in by_rank]) / world_size
        torch.testing.assert_close(whole, grads[view], rtol=1e-9, atol=1e-12)


def _part(z1: Tensor, z2: Tensor, both: tuple[Tensor, Tensor]) -> tuple[float, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    start, stop = (7 * step // world_size for step in (rank, rank + 1))
    views = [z[start:stop].clone().requires_grad_() for z in (z1, z2)]
    guide = tuple(each[start:stop] for each in both)
    value = hs.create_objective("xclr", gather=True)(*views, guide=guide)
    return value.item(), torch.autograd.grad(value, views)
