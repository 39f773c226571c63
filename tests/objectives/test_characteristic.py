"""The distance of characteristic functions: few numbers kept, digits in float32, second derivatives."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hypersphere.objectives.characteristic import Grid, characteristic_distance
from hypersphere.testing.example import views


def gaussian_grid(knots: int = 17, t_max: float = 3.0) -> Grid:
    t = Grid.knots(knots, t_max)
    return Grid.trapezoid(t, (-t.square() / 2).exp())


def directions(dim: int, number: int) -> Tensor:
    return torch.nn.functional.normalize(views(number, dim, seed=5)[0], dim=1).T


def cosines_and_sines(z: Tensor, columns: Tensor, grid: Grid) -> Tensor:
    total = z.new_zeros(())
    for t, weight, law in zip(grid.t.tolist(), grid.weights.tolist(), grid.law.tolist(), strict=True):
        angles = t * (z @ columns)
        total = total + weight * ((angles.cos().mean(dim=0) - law) ** 2 + angles.sin().mean(dim=0) ** 2).mean()
    return len(z) * total


@pytest.mark.parametrize(("size", "number"), [(2, 3), (70, 1000), (9, 40000)])  # one chunk, several, a row each
def test_powers_of_a_rotation_are_cosines_and_sines(size: int, number: int) -> None:
    columns, grid = directions(4, number), gaussian_grid()
    z = views(size, 4)[0].requires_grad_()
    value, expected = characteristic_distance(z, columns, grid), cosines_and_sines(z, columns, grid)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    grads = [torch.autograd.grad(each, z)[0] for each in (value, expected)]
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_float32_keeps_six_digits(scale: float) -> None:
    columns, grid = directions(16, 64), gaussian_grid()
    z = (scale * views(400, 16)[0]).float()
    expected = cosines_and_sines(z.double(), columns, grid)
    assert characteristic_distance(z, columns.float(), grid).item() == pytest.approx(expected.item(), rel=1e-6)


def test_no_array_of_rows_and_directions_is_kept() -> None:
    kept = []
    z, columns = views(256, 4)[0].requires_grad_(), directions(4, 512)
    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each.numel()) or each, lambda each: each):
        characteristic_distance(z, columns, gaussian_grid())
    assert sum(kept) <= z.numel() + columns.numel()


def test_the_gradient_can_be_differentiated() -> None:
    columns, grid = directions(3, 4), gaussian_grid(5)
    z = views(4, 3)[0].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda rows: characteristic_distance(rows, columns, grid), z)


def test_weights_are_the_trapezoid_rule_on_the_whole_line() -> None:
    """∫ e^{-t²/2} dt over [-8, 8] is √(2π) to the last digit; the rule is exact for what is so smooth."""
    assert gaussian_grid(65, 8.0).weights.sum().item() == pytest.approx(math.sqrt(2 * math.pi), rel=1e-13)
