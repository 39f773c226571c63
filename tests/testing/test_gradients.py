"""Gradients against differences, and the streamed form against the dense one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from tests.testing.foreign import Foreign, Written, plain


@pytest.mark.parametrize("base", [Foreign(width=5), {"name": "cloa", "base": "vicreg", "num_classes": 2, "dim": 5}])
def test_a_base_that_knows_no_negatives_is_given_none(base: Any) -> None:
    hs.testing.assert_streams_exactly(hs.create_objective("cloa", num_classes=2, dim=5, base=base))


@pytest.mark.parametrize("loss", [plain, Foreign(width=6), Written()], ids=["function", "module", "named"])
def test_a_loss_without_blocks_is_not_said_to_stream(loss: Any) -> None:
    with pytest.raises(ValueError, match="not one of hypersphere's objectives: it is called on whole views, so there"):
        hs.testing.assert_streams_exactly(loss)


def test_a_gradient_that_is_not_that_of_the_value_is_found() -> None:
    with pytest.raises(AssertionError, match="gradient in z2 differs from central differences by"):
        hs.testing.assert_gradient_exact(lambda a, b: (a * b.detach()).sum() + 0 * b.sum())
    with pytest.raises(AssertionError, match="does not depend on the embeddings"):
        hs.testing.assert_gradient_exact(lambda a, b: torch.tensor(1.0))
