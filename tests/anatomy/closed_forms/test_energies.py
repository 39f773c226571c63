"""Alignment with an energy of all pairs: the forms in angles beside gradients of vectors."""

from __future__ import annotations

import pytest
import torch

from hypersphere.anatomy import closed_form
from tests.anatomy.closed_forms.angles import Row, assert_dissected_as_stated

ROWS = [
    Row("align_uniform", {"alpha": 3.0, "t": 1.5, "weight": 0.3}, "cross", "batch", {"pairs": "cross"}),
    Row("align_uniform", {"alpha": 1.0, "t": 3.0, "weight": 0.6}, "same", "batch", {"pairs": "same"}),
    Row("mhe", {"weight": 3.0}, "same", "batch"),
    Row("mhe", {"weight": 3.0}, "same", "batch", {"views": "both"}),
    Row("mhs", {"weight": 0.7}, "same"),
    Row("dhel", {"temperature": 0.4}, "same"),
    Row("dhel", {"temperature": 0.4}, "same", "batch", {"reduction": "sum"}),
    *[Row("kcl", {"kernel": kernel, "t": 1.5, "c": 1.7, "gamma": 5.0}, "same", "batch")
      for kernel in ("gaussian", "log", "imq")],
    Row("kcl", {"kernel": "riesz", "s": -1.3}, "same", "batch"),
    Row("kcl", {"kernel": "gaussian_riesz", "s": 1.3}, "same", "batch"),
    Row("kcl", {"views": "both"}, "same", "batch"),
    Row("kcl", {"kernel": "imq", "gamma": 3.0}, "same", "batch"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_dissection_equals_the_closed_form(row: Row) -> None:
    assert_dissected_as_stated(row)


def test_the_full_gradient_of_dhel_needs_a_whole_batch() -> None:
    with pytest.raises(ValueError, match=r"needs all anchors, angles of \(N, N-1\), not \(2, 3\)"):
        closed_form("dhel")(torch.ones(2), torch.ones(2, 3), scope="batch")
