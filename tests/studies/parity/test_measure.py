"""Verdicts come from the numbers: a peer with a wrong gradient is found."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from hypersphere.studies.parity import page
from hypersphere.studies.parity.measure import DIRECTION, EQUAL, FACTOR, differ, measure
from hypersphere.studies.parity.setups import Setup
from tests.studies.parity.losses import own_rows, own_slice, scaled


def test_a_doubled_gradient_is_a_wrong_factor() -> None:
    one = measure(Setup("infonce", partial(scaled, 2.0)), 1)["theirs"]
    assert one["verdict"] == FACTOR
    assert one["ratio"] == pytest.approx(2)
    assert one["value"] == pytest.approx(one["right_value"])
    assert page.verdict(one, 1) == "other factor 2"
    assert measure(Setup("infonce", partial(scaled, 1.0)), 1)["theirs"]["verdict"] == EQUAL


@pytest.mark.parametrize(
    ("build", "verdict", "words"),
    [
        (partial(scaled, 1.0), EQUAL, "equal"),
        (own_slice, FACTOR, "wrong factor 1/W"),
        (own_rows, DIRECTION, "wrong direction, cosine 0."),
    ],
    ids=["exact", "own slice", "own rows"],
)
def test_on_two_processes_the_right_gradient_is_that_of_one(build: Any, verdict: str, words: str) -> None:
    two = measure(Setup("infonce", build, gathers=True), 2)
    assert two["theirs"]["verdict"] == verdict
    assert page.verdict(two["theirs"], 2).startswith(words)
    assert two["ours"]["verdict"] == EQUAL


def test_a_small_angle_is_not_taken_for_a_factor() -> None:
    right = torch.tensor([1.0, 0.0], dtype=torch.float64)
    tilted = torch.tensor([2.0, 1e-5], dtype=torch.float64)
    empty = torch.zeros(0)
    assert differ((1.0, tilted, empty), (1.0, right, empty)).verdict == DIRECTION
    assert differ((1.0, 2 * right, empty), (1.0, right, empty)).verdict == FACTOR
