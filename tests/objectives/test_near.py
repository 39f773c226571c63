"""Vectors that nearly coincide: in float32 too, distances and angles have the digits that the vectors have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import pi
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import masked_argmax, masked_max
from hypersphere.geometry import angle, chord, squared_chord, unit
from hypersphere.geometry.near import MatrixDistances, detached, vectors_of, with_vectors
from tests.theory import Params

# On a circle all distances follow from angles, without a cosine between. Gaps of 1e-3 and nearly so on either side of
# a point, where cosines of float32 cannot tell which is the nearer one.
NEAR = 1e-3


def angles(seed: int) -> Tensor:
    """24 of them (float64), in threes nearly equidistant."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.arange(8, dtype=torch.float64) + 0.3 * torch.rand(8, generator=generator, dtype=torch.float64)
    gaps = NEAR * (1 + 0.02 * torch.rand(8, 2, generator=generator, dtype=torch.float64))
    phi = (centres * 2 * pi / 8).unsqueeze(1)
    return torch.cat([phi, phi + gaps[:, :1], phi - gaps[:, 1:]], dim=1).flatten()


def on_circle(phi: Tensor) -> Tensor:
    return torch.stack([phi.cos(), phi.sin()], dim=1).float()


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
    z1, z2 = on_circle(angles(0)), on_circle(angles(0) + 0.5 * NEAR)
    phi, psi = angles_of(z1), angles_of(z2)
    expected = by_angles(phi, psi)
    turning = torch.cat(torch.autograd.grad(expected, [phi, psi]))
    with WAYS[way]():
        value, found = value_and_turning(hs.create_objective(name, **params), z1, z2)
    assert value == pytest.approx(expected.item(), rel=1e-5, abs=2e-7)  # of a cosine
    # Rows of length 1 are rounded by 6e-8, so angles of 1e-3 by some 1e-4 of theirs.
    assert (found - turning).norm() < 5e-4 * turning.norm()


@pytest.mark.parametrize("name", ["mmhs", "printed/mmhs"])
@pytest.mark.parametrize("stage", ["+gd", "+r"])
def test_mmhs_of_repeated_rows_is_that_of_float64_in_blocks_of_any_size(stage: str, name: str) -> None:
    objective = hs.create_objective(name, stage=stage)
    rows = torch.randn(64, 16, generator=torch.Generator().manual_seed(0)).repeat(3, 1)
    other = rows + 0.05 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    expected = objective(rows.double(), other.double()).item()
    for way in WAYS.values():
        with way():
            assert objective(rows, other).item() == pytest.approx(expected, rel=1e-5)


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


def similarities() -> tuple[Tensor, Tensor, Tensor]:
    """Cosines of float32 with their vectors, the mask of other instances, and squared distances in float64."""
    x = unit(on_circle(angles(0)))
    squared = (x.double().unsqueeze(1) - x.double()).square().sum(dim=2)
    own = (torch.arange(24).unsqueeze(1), torch.arange(24).unsqueeze(1))
    return with_vectors(x @ x.T, MatrixDistances(x, (x,), lambda: own)), ~torch.eye(24, dtype=torch.bool), squared


def test_cosines_that_come_with_their_vectors_give_distances_to_all_digits() -> None:
    cos, mask, squared = similarities()
    torch.testing.assert_close(squared_chord(cos)[mask].double(), squared[mask], rtol=1e-5, atol=0)
    torch.testing.assert_close(angle(cos)[mask].double(), 2 * (squared[mask].sqrt() / 2).arcsin(), rtol=1e-5, atol=0)
    with pytest.raises(AssertionError):  # cosines alone
        torch.testing.assert_close(squared_chord(cos.clone())[mask].double(), squared[mask], rtol=1e-2, atol=0)


def test_the_nearest_is_found_by_distance_where_cosines_are_alike() -> None:
    cos, mask, squared = similarities()
    nearest = squared.masked_fill(~mask, torch.inf)
    assert (masked_argmax(cos, mask).squeeze(1) == nearest.argmin(dim=1)).all()
    for grad in (False, True):
        hardest = masked_max(with_vectors(cos.detach().requires_grad_(grad), vectors_of(cos)), mask)
        torch.testing.assert_close(chord(hardest).double(), nearest.amin(dim=1).sqrt(), rtol=1e-5, atol=0)


def test_cosines_that_were_changed_have_lost_their_vectors() -> None:
    cos, _, _ = similarities()
    assert squared_chord(detached(cos))[0, 1] == squared_chord(cos)[0, 1] != 2 - 2 * cos[0, 1]
    cos.mul_(0.5)
    assert (squared_chord(cos) == 2 - 2 * cos).all()
    cos, _, _ = similarities()
    wrong = with_vectors(cos - 0.01, vectors_of(cos))  # vectors of other cosines
    assert (squared_chord(wrong) == 2 - 2 * wrong).all()
