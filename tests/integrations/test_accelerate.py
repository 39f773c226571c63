"""accelerate and a plain loop need nothing of ours but the objective: both end with the weights of torch alone."""

from __future__ import annotations

import pytest

from tests.integrations import small


@pytest.mark.parametrize("name", ["in_a_loop", "with_accelerate"])
def test_a_loop_ends_with_the_weights_of_torch_alone(name: str) -> None:
    small.assert_same(getattr(small, name)(), small.expected())
