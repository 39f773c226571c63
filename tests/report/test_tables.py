"""Tables as text."""

from __future__ import annotations

import pytest

from hypersphere.report import markdown_table


def test_a_table_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells but the header has 2"):
        markdown_table(["a", "b"], [["1"]])
