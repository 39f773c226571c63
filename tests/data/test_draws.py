"""Seeded draws depend on the seed alone, and the draws around them do not notice."""

from __future__ import annotations

import pytest
import torch

from hypersphere.data.draws import seeded


def test_draws_are_those_of_torch_with_that_seed_whatever_came_before() -> None:
    torch.rand(3)
    with seeded(7):
        drawn = torch.rand(4)
    assert torch.equal(drawn, torch.rand(4, generator=torch.Generator().manual_seed(7)))


def test_the_draws_outside_go_on_as_if_there_had_been_none_inside_even_after_an_error() -> None:
    with seeded(1):
        expected = torch.rand(2)
    with seeded(1):
        first = torch.rand(1)
        with seeded(2):
            torch.rand(5)
        with pytest.raises(ZeroDivisionError), seeded(3):
            torch.rand(5)
            raise ZeroDivisionError
        assert torch.equal(torch.cat([first, torch.rand(1)]), expected)
