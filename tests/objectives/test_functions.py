"""Plain functions of two views as objectives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hypersphere as hs

Z1, Z2 = (torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))


@pytest.mark.parametrize(("answer", "said"), [("z1", r"shape \(6, 4\)"), ("0.5", "float"), ("None", "NoneType")])
def test_a_function_returns_one_number(mine: Path, answer: str, said: str) -> None:
    mine.write_text(f"def f(z1, z2):\n    return {answer}\n")
    with pytest.raises(
        ValueError, match=f"^f must return one number, a tensor without dimensions; it returned {said}$"
    ):
        hs.create_objective("mine.py:f")(Z1, Z2)


def test_a_function_takes_no_further_negatives(mine: Path) -> None:
    with pytest.raises(ValueError, match="pull is a plain function of two views: it takes no negatives"):
        hs.create_objective("mine.py:pull")(Z1, Z2, negatives=Z2)
