"""The modified objectives, stage by stage: the forms in angles beside gradients of vectors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hypersphere.anatomy import closed_form
from tests.anatomy.closed_forms.angles import Row, assert_dissected_as_stated, gates


def _staged(name: str, *extra: str, **params: Any) -> list[Row]:
    stages = ("original", "+gd", "+r") if name == "mmhs" else ("original", "+gd", "+w", "+r")
    return [
        Row(name, {"stage": stage, **params}, "same", "batch", {"views": "both"}, ("cross", *extra),
            (name, stage) != ("mbarlow", "+gd"))
        for stage in stages
    ]  # fmt: skip


ROWS = [
    *_staged("mmhe", temperature=0.2, margin=0.25),
    *_staged("mmhs", margin=0.25, weight=0.8),
    *_staged("mbarlow", "other", temperature=0.2, margin=0.25, weight=1.0),
    *_staged("mbarlow", "other", temperature=0.2, margin=0.25),
    *_staged("mvicreg", temperature=0.2, margin=0.25),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_dissection_equals_the_closed_form(row: Row) -> None:
    assert_dissected_as_stated(row)


@pytest.mark.parametrize("row", [row for row in ROWS if row.params["stage"] != "original"], ids=str)
def test_some_gates_are_open_and_some_closed(row: Row) -> None:
    assert gates(row) == {0.0, 1.0}


def test_a_stage_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mmhs has no stage '\+w', only original, \+gd, \+r"):
        closed_form("mmhs")(torch.ones(2), torch.ones(2, 3), stage="+w")
    with pytest.raises(ValueError, match=r"a stage is original, .*, not 'gd'"):
        closed_form("mmhe")(torch.ones(2), torch.ones(2, 3), stage="gd")
