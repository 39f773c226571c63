"""accelerate and a plain loop need nothing of ours but the objective: both end with the weights of torch alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integrations import small


@pytest.mark.parametrize("name", ["in_a_loop", "with_accelerate"])
def test_a_loop_ends_with_the_weights_of_torch_alone(name: str) -> None:
    small.assert_same(getattr(small, name)(), small.expected())


def test_the_lines_of_the_page_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(small.section("accelerate and a plain loop"), names)
    assert names["rows"].shape == (64, 20)
