"""Random directions: new in each step of training, the same everywhere and after a resumed run."""

from __future__ import annotations

import copy

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views


def objective(**params: object) -> hs.objectives.Objective:
    return hs.create_objective("sigreg", num_slices=5, **params)


def test_directions_are_unit_columns_of_seed_and_step() -> None:
    directions = objective().directions(4)
    assert directions.shape == (4, 5)
    torch.testing.assert_close(directions.norm(dim=0), torch.ones(5, dtype=torch.float64))
    assert torch.equal(objective().half().directions(4), directions)
    assert not torch.allclose(objective(seed=1).directions(4), directions)


def test_directions_that_do_not_fit_the_rows_are_refused() -> None:
    for name in ("sigreg", "visreg"):
        for given, said in ((torch.eye(5), r"\(5, 5\)"), (torch.ones(4), r"\(4,\)"), ([1.0], "list")):
            sliced = hs.create_objective(name)
            sliced.directions = lambda dim, given=given: given
            with pytest.raises(ValueError, match=rf"{name}'s directions must be a matrix \(4, K\), not {said}"):
                sliced(*views(6, 4))


def test_each_step_of_training_has_its_own_and_evaluation_those_of_the_first() -> None:
    sliced, (z1, z2) = objective(), views(6, 4)
    first, value = sliced.directions(4), sliced(z1, z2)
    second = sliced.directions(4)
    assert sliced.step.item() == 1 and not torch.allclose(first, second)
    assert sliced.terms(z1, z2)["loss"] != value and sliced.step.item() == 2
    sliced.eval()
    assert sliced(z1, z2) == value == sliced(z1, z2)
    assert sliced.step.item() == 2 and torch.equal(sliced.directions(4), first)


def test_a_resumed_run_goes_on_with_the_directions_it_would_have_had() -> None:
    sliced, (z1, z2) = objective(), views(6, 4)
    for _ in range(3):
        sliced(z1, z2)
    resumed = objective()
    resumed.load_state_dict(copy.deepcopy(sliced.state_dict()))
    assert resumed(z1, z2) == sliced(z1, z2)


def test_a_call_that_fails_is_no_step() -> None:
    sliced, (z1, z2) = objective(), views(6, 4)
    with pytest.raises(ValueError, match=r"NaN or Inf|finite"):
        sliced(z1 * torch.nan, z2)
    with pytest.raises(ValueError, match="sigreg compares features, not pairs: it takes no ids"):
        sliced(z1, z2, ids=torch.arange(6))
    assert sliced.step.item() == 0
