"""A chart is drawn from whatever there is."""

from __future__ import annotations

import pytest

from hypersphere.figures import Curve, GrowthPanel, draw_growth
from hypersphere.figures.growth import _styles

LINE = Curve("ours", [(64, 1e-3), (128, 4e-3)])


@pytest.mark.parametrize(
    "panel",
    [
        GrowthPanel("whole", [LINE, Curve("plain", [(64, 2e-3)], beyond=128)], [LINE], [LINE]),
        GrowthPanel("memory only", [], [], [Curve("plain", [(64, 4096.0)])]),
        GrowthPanel("nothing yet", [], [], []),
    ],
    ids=lambda panel: panel.title,
)
def test_a_chart_is_drawn_from_whatever_is_there(panel: GrowthPanel) -> None:
    assert draw_growth("title", [panel] * 5, first="ours").startswith(b"\x89PNG")


def test_contestants_look_different_and_always_alike() -> None:
    styles = _styles({"ours", "plain", "limit", "b", "a"}, first="ours")
    assert list(styles) == ["ours", "limit", "plain", "a", "b"]
    assert len({style["color"] for style in styles.values()}) == 5
    assert _styles({"plain", "ours"}, first="ours")["plain"] == styles["plain"]
