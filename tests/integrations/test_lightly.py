"""lightly's call form, and its memory bank."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views

Loss = hs.integrations.lightly.Loss


class Bank:
    """lightly's memory bank, written with loops over rows."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.next = list(rows), 0

    def keep(self, keys: Tensor) -> None:
        for key in keys:
            if self.next == len(self.rows):
                break  # the rest of the batch is lost
            self.rows[self.next], self.next = key, self.next + 1
        self.next %= len(self.rows)


@pytest.mark.parametrize("size", [3, 7, 8, 10])
def test_a_bank_is_contrasted_with_the_first_view_and_keeps_the_second(size: int) -> None:
    loss = Loss("ntxent", temperature=0.2, memory_bank_size=(size, 4))
    bank = Bank(loss.bank.double())
    torch.testing.assert_close(loss.bank.norm(dim=1), torch.ones(size))
    for step in range(6):
        rows = [(each + step).requires_grad_() for each in views(4 if step != 2 else 1, 4)]
        x, y = (normalize(each) for each in rows)
        logits = torch.cat([(x * y).sum(dim=1, keepdim=True), x @ torch.stack(bank.rows).T], dim=1) / 0.2
        expected = cross_entropy(logits, torch.zeros(len(x), dtype=torch.int64))
        value = loss(*rows)
        assert value.item() == pytest.approx(expected.item(), rel=1e-6)
        for a, b in zip(torch.autograd.grad(value, rows), torch.autograd.grad(expected, rows), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
        bank.keep(y.detach())
        torch.testing.assert_close(normalize(loss.bank), torch.stack(bank.rows), rtol=1e-6, atol=1e-7)


def test_without_gradient_the_bank_stays() -> None:
    loss = Loss("ntxent", memory_bank_size=6)
    z0, z1 = views(4, 3)
    first = loss(z0, z1).item()
    assert loss(z0, z1).item() == first
    loss(z0.requires_grad_(), z1)
    assert loss(z0.detach(), z1).item() != first
    assert loss.bank.shape == (6, 3)
    assert not any("bank" in name for name in loss.state_dict())


@pytest.mark.filterwarnings("ignore:a batch of one row")
@pytest.mark.parametrize("bank", [0, 5])
def test_a_single_row_is_a_batch(bank: int) -> None:
    z0, z1 = (each.requires_grad_() for each in views(1, 4))
    loss = Loss("ntxent", temperature=1.0, memory_bank_size=bank)(z0, z1)
    loss.backward()
    assert loss.item() == 0 if bank == 0 else loss.item() > 0


def test_without_a_bank_it_is_the_objective_with_lightlys_defaults() -> None:
    z0, z1 = views(6, 4)
    for name in ("ntxent", "dcl", "dclw", "barlow", "vicreg"):
        expected = hs.create_objective(name, preset="lightly")(z0, z1)
        assert Loss(name)(z0, z1).item() == expected.item()
    assert Loss("met", margin=0.4)(z0, z1).item() == hs.create_objective("met", margin=0.4)(z0, z1).item()


@pytest.mark.parametrize("settings", [{}, {"memory_bank_size": (16, 4)}, {"objective": "met", "memory_bank_size": 16}])
def test_an_encoder_trains_with_it(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    encoder, loss = nn.Linear(8, 4), Loss(**settings)
    optimiser, values = torch.optim.Adam(encoder.parameters(), lr=0.05), []
    pull = torch.diag(torch.tensor([1.0] * 4 + [0.0] * 4))  # the views agree in four of eight dimensions
    for _ in range(40):
        x = torch.randn(12, 8)
        optimiser.zero_grad()
        value = loss(encoder(x), encoder(x @ pull + torch.randn(12, 8) @ (torch.eye(8) - pull)))
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert math.fsum(values[-5:]) < math.fsum(values[5:10])


def test_views_of_several_positions_give_the_mean_over_them() -> None:
    """VICReg of VICRegL's maps (B, N, D), in one formula for all positions."""
    z0, z1 = (z.view(6, 4, 3).requires_grad_() for z in views(24, 3))
    covariances = [torch.einsum("bnc,bnd->ncd", c, c) / 5 for c in (z - z.mean(dim=0) for z in (z0, z1))]
    off_diagonal = [(each**2).sum() - (each.diagonal(dim1=1, dim2=2) ** 2).sum() for each in covariances]
    deviations = [(1 - (z.var(dim=0) + 1e-4).sqrt()).relu().mean() for z in (z0, z1)]
    expected = 25 * (z0 - z1).square().mean() + 25 * sum(deviations) / 2 + sum(off_diagonal) / (4 * 3)
    value = Loss("vicreg")(z0, z1)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=0)
    for ours, theirs in zip(*(torch.autograd.grad(each, (z0, z1)) for each in (value, expected)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match=r"must have one shape, not \(6, 4, 3\) and \(6, 2, 3\)"):
        Loss("vicreg")(z0, z1[:, :2])


@pytest.mark.parametrize("bank", [0, 5])
def test_two_processes_are_one_with_the_whole_batch(bank: int) -> None:
    z0, z1 = views(7, 4)
    by_rank = workers(2).run(_steps, z0, z1, bank)
    loss, rows = Loss("ntxent", memory_bank_size=bank), [each.clone().requires_grad_() for each in (z0, z1)]
    for step in range(3):
        expected = loss(*rows)
        grads = torch.autograd.grad(expected, rows)
        for rank in range(2):
            assert by_rank[rank][step][0] == pytest.approx(expected.item(), rel=1e-6)
        for place in (1, 2):
            whole = torch.cat([each[step][place] for each in by_rank]) / 2
            torch.testing.assert_close(whole, grads[place - 1], rtol=1e-6, atol=1e-8)


def _steps(z0: Tensor, z1: Tensor, bank: int) -> list[list[Any]]:
    own = (slice(0, 3), slice(3, 7))[torch.distributed.get_rank()]
    loss = Loss("ntxent", memory_bank_size=bank, gather_distributed=True)
    rows, steps = [each[own].clone().requires_grad_() for each in (z0, z1)], []
    for _ in range(3):
        value = loss(*rows)
        steps.append([value.item(), *torch.autograd.grad(value, rows)])
    return steps


def test_a_bad_row_on_one_process_is_an_error_on_both() -> None:
    with pytest.raises(RuntimeError, match="NaN"):
        workers(2).run(_bad_on_the_first, *views(4, 3))


def _bad_on_the_first(z0: Tensor, z1: Tensor) -> None:
    bad = float("nan") if torch.distributed.get_rank() == 0 else 1.0
    Loss("ntxent", memory_bank_size=4, gather_distributed=True)((z0 * bad).requires_grad_(), z1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory_bank_size": (4, 3, 2)}, r"memory_bank_size must be \(rows, dim\)"),
        (
            {"memory_bank_size": -1},
            r"memory_bank_size must be \(rows, dim\), a number of rows, or 0 for no bank, not -1",
        ),
        ({"objective": "barlow", "memory_bank_size": 8}, "barlow has no negatives: its memory_bank_size must be 0"),
        ({"memory_bank_size": 4.5}, r"memory_bank_size must be \(rows, dim\), .* not 4\.5"),
        ({"memory_bank_size": (8, 5)}, "negatives have 5 dimensions but the views have 3"),
    ],
)
def test_bad_input_gets_one_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"z1 must be the rows \(N, D\) of the positives, not NoneType"):
        Loss()(views(4, 3)[0], None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        Loss(**settings)(*views(4, 3))
