"""Figures of CLOA's items take longer than the numbers in them."""

from __future__ import annotations

import pytest

DRAWN = {"lines": ("draw_rates",), "rates": ("draw_rates", "draw_phases"), "gains": ("draw_pairs",),
         "second": ("draw_pairs",)}  # fmt: skip


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take longer than the numbers in them: they are drawn in one test."""
    if "drawn" not in request.node.name:
        for module, functions in DRAWN.items():
            for function in functions:
                target = f"hypersphere.studies.reproduce.cloa2024.{module}.{function}"
                monkeypatch.setattr(target, lambda *args, **options: None)
