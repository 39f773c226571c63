"""SIGReg: the test of Epps and Pulley on random directions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy.special import hyp1f1
from torch import Tensor

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views


def regulariser(directions: Tensor | None = None, **params: Any) -> hs.objectives.Objective:
    objective = hs.create_objective("sigreg", weight=1.0, **params).eval()
    if directions is not None:
        objective.directions = lambda dim: directions
    return objective


def test_algorithm_1_of_the_paper_is_nine_knots_up_to_five() -> None:
    """Seventeen points of [-5, 5], by the trapezoid rule, on one direction after the other."""
    z, _ = views(7, 4)
    objective = regulariser(knots=9, t_max=5.0, num_slices=3)
    t = torch.linspace(-5, 5, 17, dtype=torch.float64)
    statistics = []
    for direction in objective.directions(4).T:
        waves = torch.exp(1j * t * (z @ direction)[:, None]).mean(dim=0)
        gaps = (waves - torch.exp(-(t**2) / 2)).abs() ** 2 * torch.exp(-(t**2) / 2)
        statistics.append(7 * torch.trapezoid(gaps, t))
    torch.testing.assert_close(objective(z, z), torch.stack(statistics).mean())


def test_over_all_directions_it_is_a_sum_over_pairs() -> None:
    """N√(2π) (mean_ij M(½, D/2, -‖z_i-z_j‖²/2) - √2 mean_i M(½, D/2, -‖z_i‖²/4) + 1/√3), M of Kummer."""
    z, _ = views(6, 2)
    angles = torch.arange(400, dtype=torch.float64) * math.pi / 400
    objective = regulariser(torch.stack([angles.cos(), angles.sin()]), knots=200, t_max=10.0)
    pairs = hyp1f1(0.5, 1.0, -(torch.cdist(z, z) ** 2).numpy() / 2).mean()
    alone = hyp1f1(0.5, 1.0, -(z**2).sum(dim=1).numpy() / 4).mean()
    expected = 6 * math.sqrt(2 * math.pi) * (pairs - math.sqrt(2) * alone + 1 / math.sqrt(3))
    assert objective(z, z).item() == pytest.approx(expected, rel=1e-9)


def test_gaussian_rows_have_the_same_value_on_average_however_many() -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (4, 64):
        values = []
        for _ in range(30):
            z1, z2 = torch.randn(2, size, 64, generator=generator)
            values.append(regulariser(num_slices=256)(z1, z2).item())
        assert sum(values) / len(values) == pytest.approx(1.0525, rel=0.03)


def test_rows_at_the_origin_stay_there_and_others_are_pushed_to_it_together() -> None:
    objective = regulariser(num_slices=64)
    z = torch.zeros(10, 3, dtype=torch.float64, requires_grad=True)
    value = objective(z, z)
    assert value.item() == pytest.approx(0.4020 * 10, rel=1e-3)
    assert torch.autograd.grad(value, z)[0].abs().max() < 1e-15
    aside = torch.full((10, 3), 0.5, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(objective(aside, aside), aside)
    assert (grad * aside).sum(dim=1).min() > 0 and torch.allclose(grad, grad[:1].expand_as(grad))


def test_the_order_of_rows_does_not_matter() -> None:
    z1, z2 = views(9, 4)
    objective = regulariser(num_slices=8)
    torch.testing.assert_close(objective(z1.flip(0), z2.roll(2, 0)), objective(z1, z2), rtol=1e-13, atol=0)


def _third_view(z: list[Tensor], start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
    leaf = z[0][start:stop].clone().requires_grad_()
    objective = hs.create_objective("sigreg", num_slices=4, num_global=2, gather=True)
    first = objective(leaf, z[1][start:stop], views=(z[2][start:stop],))
    second = objective(leaf, z[1][start:stop], views=(z[2][start:stop],))  # with the directions of the next step
    return first.detach(), second.detach(), torch.autograd.grad(second, leaf)[0]


def test_three_views_on_two_processes_are_those_of_one_in_every_step() -> None:
    z = [*views(7, 4), views(7, 4, seed=1)[0]]
    first, second, grad = _third_view(z, 0, 7)
    results = workers(2).run(_on_rank, z)
    assert second != first
    for result in results:
        torch.testing.assert_close(list(result[:2]), [first, second])
    torch.testing.assert_close(torch.cat([result[2] for result in results]) / 2, grad)  # DDP takes the mean


def _on_rank(z: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return _third_view(z, *((0, 3), (3, 7))[torch.distributed.get_rank()])


def test_directions_may_be_replaced_by_a_matrix_or_a_function() -> None:
    z1, z2 = views(6, 4)
    matrix = torch.eye(4, dtype=torch.float64)
    one, other = hs.create_objective("sigreg"), hs.create_objective("sigreg")
    one.directions, other.directions = matrix, lambda dim: matrix[:dim]
    assert one(z1, z2).item() == other(z1, z2).item() != hs.create_objective("sigreg")(z1, z2).item()
