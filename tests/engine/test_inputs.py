"""Bad input gets one clear sentence; what a call may give is declared once."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.engine.inputs import OPTIONAL

EYE = torch.eye(4)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((EYE, EYE[:3]), {}, r"views differ in shape: z1 \(4, 4\), z2 \(3, 4\)"),
        ((EYE[0], EYE[0]), {}, r"z1 must be a matrix, one embedding per row, not of shape \(4,\)"),
        ((EYE[:0], EYE[:0]), {}, "needs a batch of at least one instance; this one has 0"),
        ((EYE[:, :0], EYE[:, :0]), {}, "z1 must be a matrix"),
        ((EYE.int(), EYE.int()), {}, "z1 must hold floating point numbers, not torch.int32"),
        (([[1.0]], EYE), {}, "z1 must be a tensor, not list"),
        ((EYE * float("nan"), EYE), {}, "z1 holds NaN or Inf in 4 of 4 rows"),
        ((EYE, EYE.clone().index_put((torch.tensor([2]), torch.tensor([1])), torch.tensor(float("inf")))), {}, "row 2"),
        ((EYE, EYE), {"negatives": torch.eye(3)}, "negatives have 3 dimensions but the views have 4"),
        ((EYE, EYE), {"negatives": torch.full((2, 4), float("nan"))}, "negatives holds NaN or Inf"),
        ((EYE, EYE, torch.arange(3)), {}, r"labels must be a tensor of 4 whole numbers, one per row, not \(3,\)"),
        ((EYE, EYE, torch.rand(4)), {}, "labels must be whole numbers"),
        ((EYE, EYE, [0, 1, 0, 1]), {}, "labels must be a tensor of 4 whole numbers, one per row, not list"),
    ],
)
@pytest.mark.parametrize("context", [hs.dense, lambda: hs.streaming(2)], ids=["dense", "streaming"])
def test_bad_batches(args: tuple[Any, ...], kwargs: dict[str, Any], message: str, context: Any) -> None:
    for name in ("infonce", "supcon"):  # one that fills in labels too
        with context(), pytest.raises(ValueError, match=message):
            hs.create_objective(name)(*args, **kwargs)


def test_tensors_without_rows_get_one_sentence() -> None:
    objective, z = hs.create_objective("infonce"), torch.eye(3)
    one: Any = torch.tensor(1.0)
    for given in ((one, one), (z, one)):
        with pytest.raises(ValueError, match="must be a matrix, one embedding per row"):
            objective(*given)
    for extra in (one, 5):
        with pytest.raises(ValueError, match="negatives must be a"):
            objective(z, z, negatives=extra)


def test_the_optional_tensors_of_a_call_are_those_of_forward() -> None:
    arguments = inspect.signature(hs.objectives.Objective.forward).parameters
    assert set(OPTIONAL) == set(arguments) - {"self", "z1", "z2", "in_batch"}


def test_the_names_of_what_a_call_gives_are_listed() -> None:
    assert hs.engine.Inputs(EYE, EYE).given == []
    assert hs.engine.Inputs(EYE, EYE, negatives=EYE, views=(EYE,), in_batch=False).given == ["negatives", "views"]
