"""The limit counts the products that are needed, and InfoNCE by hand computes the same thing."""

from __future__ import annotations

import pytest
import torch

from hypersphere.objectives import create_objective
from hypersphere.studies.benchmark import limits
from hypersphere.studies.benchmark.cases import CLASSES, find_case, inputs
from hypersphere.studies.benchmark.limits import Work, blocked, elementwise, whole, work


@pytest.mark.parametrize(
    ("label", "needed"),
    [
        ("infonce", Work(1, 1, 1, 1)),
        ("infonce symmetric", Work(2, 2, 2, 2)),
        ("ntxent", Work(4, 4, 4, 4)),  # two turns, each against both views
        ("kcl", Work(1, 1, 1, 1)),
        ("align_uniform", Work(4, 2, 2, 2)),  # coupled: every similarity twice
        ("dclw", Work(4, 4, 4, 4)),  # coupled through the positives alone
        ("mmhe", Work(6, 2, 0, 4)),  # per turn: energies twice and moving the anchors, gates once
        ("mbarlow", Work(8, 2, 0, 4)),  # here the cross matrix weighs as well, so it is needed twice
        ("cloa", Work(1, 1, 1, 1)),
    ],
)
def test_the_limit_counts_the_products_that_are_needed(label: str, needed: Work) -> None:
    assert work(find_case(label).create(dim=CLASSES), CLASSES) == needed


def test_an_objective_inside_another_is_counted_once() -> None:
    assert work(create_objective("mixup"), 4) == Work(1, 1, 1, 1)


def test_counting_leaves_the_objective_as_it_was() -> None:
    objective = create_objective("infonce")
    before = vars(objective).keys()
    work(objective, 4)
    assert vars(objective).keys() == before


def test_the_bare_products_run_at_sizes_that_are_no_multiple_of_a_block() -> None:
    for make in (blocked, whole):
        make(Work(2, 1, 1, 1), 700, 4)()
    elementwise("softplus", 1, 1500)()


@pytest.mark.parametrize(("size", "rows"), [(9, 2048), (200, 64), (3, 2)])
def test_the_form_by_hand_has_the_value_and_the_gradient_of_the_objective(
    size: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HAND_BLOCK_ROWS", rows)
    objective = create_objective("infonce")
    z1, z2, _ = inputs(size, 5)
    form = limits.InfoNCEByHand(size)
    value = objective(z1, z2)
    expected = [value.detach(), *torch.autograd.grad(value, [z1, z2])]
    for _ in range(2):  # its memory is not fresh any more
        torch.testing.assert_close(list(form(z1, z2)), expected, rtol=1e-5, atol=1e-6)
