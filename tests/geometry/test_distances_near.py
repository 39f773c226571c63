"""Cosines that come with their vectors: distances and angles have the digits that the vectors have."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hypersphere.engine import masked_argmax, masked_max
from hypersphere.geometry import angle, chord, squared_chord, unit
from hypersphere.geometry.distances import MatrixDistances, detached, vectors_of, with_vectors
from tests.theory import near_angles, on_circle


def similarities() -> tuple[Tensor, Tensor, Tensor]:
    """Cosines of float32 with their vectors, the mask of other instances, and squared distances in float64."""
    x = unit(on_circle(near_angles(0)))
    squared = (x.double().unsqueeze(1) - x.double()).square().sum(dim=2)
    distances = MatrixDistances(x, slice(0, 24), (x,), own=(0,))
    return with_vectors(x @ x.T, distances), ~torch.eye(24, dtype=torch.bool), squared


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
