"""Vectors that nearly coincide: in float32 too, losses have the digits that the vectors have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import pi
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from tests.theory import NEAR, Params, near_angles, on_circle


def angles_of(z: Tensor) -> Tensor:
    return torch.atan2(z[:, 1].double(), z[:, 0].double()).requires_grad_()


def between(phi: Tensor, psi: Tensor) -> Tensor:
    """Angles of every point of one view with every one of the other, in [0, π]."""
    return ((phi.unsqueeze(1) - psi + pi) % (2 * pi) - pi).abs()


def others(matrix: Tensor) -> Tensor:
    """A matrix without its diagonal."""
    size = len(matrix)
    return matrix[~torch.eye(size, dtype=torch.bool)].view(size, -1)


def chords(theta: Tensor) -> Tensor:
    return 2 * (theta / 2).sin()


def triplet(distance: Callable[[Tensor], Tensor], margin: float) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(phi: Tensor, psi: Tensor) -> Tensor:
        distances = distance(between(phi, psi))
        return (distances.diagonal() - others(distances).amin(dim=1) + margin).relu().mean()

    return loss


def mhs(phi: Tensor, psi: Tensor) -> Tensor:
    return (chords(between(phi, psi).diagonal()) ** 2 - chords(others(between(phi, phi))).amin(dim=1)).mean()


def riesz(phi: Tensor, psi: Tensor) -> Tensor:
    return (chords(between(phi, psi).diagonal()) ** 2).mean() + 10 * (1 / chords(others(between(phi, phi)))).mean()


def geodesic(phi: Tensor, psi: Tensor) -> Tensor:
    both = torch.cat([phi, psi])
    theta, size = between(both, both), len(phi)
    positive = torch.cat([theta[:size, size:].diagonal(), theta[size:, :size].diagonal()])
    return (positive / 0.1 + torch.logsumexp(-others(theta) / 0.1, dim=1)).mean()


def arccon(phi: Tensor, psi: Tensor) -> Tensor:
    theta = between(phi, psi)
    positive = (theta.diagonal() + pi / 18).cos() / 0.05
    return (torch.logsumexp(torch.cat([positive.unsqueeze(1), others(theta).cos() / 0.05], 1), 1) - positive).mean()


BY_ANGLES: list[tuple[str, Params, Callable[[Tensor, Tensor], Tensor]]] = [
    ("mhs", {}, mhs),
    ("mhe", {"s": 1.0}, riesz),
    ("met", {}, triplet(chords, 0.45)),
    ("mat", {}, triplet(lambda theta: theta, 0.15 * pi)),
    ("geodesic", {}, geodesic),
    ("arccon", {}, arccon),
]
WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "dense": hs.dense,
    "in blocks of 1": lambda: hs.streaming(1),
    "in blocks of 5": lambda: hs.streaming(5),
}


def value_and_turning(objective: Any, z1: Tensor, z2: Tensor) -> tuple[float, Tensor]:
    """The loss, and its derivative in the angle of every row."""
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    value = objective(a, b)
    grads = torch.autograd.grad(value, [a, b], allow_unused=True, materialize_grads=True)
    along = [(s * torch.stack([-z[:, 1], z[:, 0]], dim=1)).sum(dim=1) for s, z in zip(grads, (z1, z2), strict=True)]
    return value.item(), torch.cat(along).double()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "params", "by_angles"), BY_ANGLES, ids=[name for name, *_ in BY_ANGLES])
def test_on_a_circle_near_points_have_the_gradient_of_their_angles(
    name: str, params: Params, by_angles: Callable[[Tensor, Tensor], Tensor], way: str
) -> None:
    z1, z2 = on_circle(near_angles(0)), on_circle(near_angles(0) + 0.5 * NEAR)
    phi, psi = angles_of(z1), angles_of(z2)
    expected = by_angles(phi, psi)
    turning = torch.cat(torch.autograd.grad(expected, [phi, psi]))
    with WAYS[way]():
        value, derivative = value_and_turning(hs.create_objective(name, **params), z1, z2)
    assert value == pytest.approx(expected.item(), rel=1e-5, abs=2e-7)  # of a cosine
    # Rows of length 1 are rounded by 6e-8, so angles of 1e-3 by some 1e-4 of theirs.
    assert (derivative - turning).norm() < 5e-4 * turning.norm()


@pytest.mark.parametrize(("name", "params", "_"), [*BY_ANGLES, ("mmhs", {}, None)], ids=lambda each: str(each)[:8])
def test_of_equally_near_vectors_blocks_and_the_whole_choose_the_same(name: str, params: Params, _: object) -> None:
    generator = torch.Generator().manual_seed(3)
    z1 = torch.randn(60, 2, generator=generator)
    z1[30:] = z1[:30].flip(0)
    z2 = z1 + 0.3 * torch.randn(60, 2, generator=generator)
    grads = []
    for way in WAYS.values():
        a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
        with way():
            value = hs.create_objective(name, **params)(a, b)
        grads.append(torch.cat(torch.autograd.grad(value, [a, b], allow_unused=True, materialize_grads=True)))
    for other in grads[1:]:
        assert (other - grads[0]).norm() < 1e-4 * grads[0].norm()
