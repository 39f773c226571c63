"""Prototypes: InfoNCE and DCL of the rows' prototypes with the rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views

LABELS = torch.tensor([0, 2, 2, 0, 4, -1, 2])  # of five classes, two of them absent


def objective_of(name: str, **settings: Any) -> Any:
    return hs.create_objective(name, num_classes=5, dim=4, **settings).double()


@pytest.mark.parametrize(("name", "of_pairs"), [("ntce", "infonce"), ("nonl", "dcl")])
def test_it_is_an_objective_of_pairs_of_prototypes_and_rows(name: str, of_pairs: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(7, 4))
    objective, pairs = objective_of(name), hs.create_objective(of_pairs, temperature=0.2)
    moving = [z1, z2, objective.prototypes]
    known = LABELS >= 0
    more = {"ids": LABELS[known]} if name == "nonl" else {}
    rows = objective.prototypes[LABELS[known]]
    expected = sum(pairs(rows, z[known], **more) for z in (z1, z2)) / 2
    value = objective(z1, z2, LABELS)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    for one, two in zip(*(torch.autograd.grad(each, moving) for each in (value, expected)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["ntce", "nonl"])
def test_batches_with_one_class_or_none(name: str) -> None:
    z1, z2 = (z.requires_grad_() for z in views(4, 4))
    objective = objective_of(name)
    one = objective.terms(z1, z2, torch.tensor([1, 1, 1, 1]))
    assert one["loss"].isfinite() and (name == "ntce" or one["loss"] == one["alignment"])
    none = objective(z1, z2, torch.full((4,), -1))
    grads = torch.autograd.grad(none, [z1, z2, objective.prototypes])
    assert none.item() == 0 and not any(grad.any() for grad in grads)


@pytest.mark.parametrize("name", ["ntce", "nonl"])
def test_what_does_not_fit_is_refused(name: str) -> None:
    z1, z2 = views(4, 4)
    objective, labels = objective_of(name), torch.tensor([0, 1, 2, 3])
    with pytest.raises(ValueError, match=f"{name} needs labels"):
        objective(z1, z2)
    with pytest.raises(ValueError, match=r"below the number of classes \(5\)"):
        objective(z1, z2, labels + 2)
    with pytest.raises(ValueError, match="have 4 dimensions but the views have 3"):
        objective(z1[:, :3], z2[:, :3], labels)
    with pytest.raises(ValueError, match="compares rows with prototypes, not with each other: it takes no ids"):
        objective(z1, z2, labels, ids=labels)
    with pytest.raises(ValueError, match="at least two instances"):
        objective(z1[:1], z2[:1], labels[:1])


@pytest.mark.parametrize("name", ["ntce", "nonl"])
def test_prototypes_are_learned_saved_and_alike_from_the_start(name: str) -> None:
    first, second = objective_of(name), objective_of(name)
    assert torch.equal(first.prototypes, second.prototypes)
    with torch.no_grad():
        first.prototypes.mul_(3)
    second.load_state_dict(first.state_dict())
    z1, z2 = views(7, 4)
    assert second(z1, z2, LABELS).item() == pytest.approx(objective_of(name)(z1, z2, LABELS).item(), rel=1e-12)
    assert {key for key, _ in objective_of(name, learnable=True).named_parameters()} == {
        "prototypes",
        "log_temperature",
    }
