"""Maps over the angles share their colours and say where values go beyond them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.anatomy import AngleGrid
from hypersphere.figures.maps import HeatMap, Scale, _beyond, _degrees, _multiple, _sentence, component_maps

VALUES = np.array([[0.0, 0.5], [1.0, 3.0]])


@pytest.mark.parametrize("limits, said", [((0, 3), "neither"), ((0, 2), "max"), ((0.5, 3), "min"), ((0.5, 2), "both")])
def test_a_bar_has_an_arrow_on_the_side_that_values_leave(limits: tuple[float, float], said: str) -> None:
    assert _beyond(Scale("x", limits), [HeatMap("", VALUES)]) == said
    assert _beyond(Scale("x", limits), [HeatMap("", VALUES, shaded=np.ones((2, 2), dtype=bool))]) == "neither"


def test_ticks_are_multiples_of_pi_or_degrees() -> None:
    assert [_multiple(k * math.pi / 8) for k in (0, 1, 4, 6, 8, 16)] == ["0", "π/8", "π/2", "3π/4", "π", "2π"]
    assert _degrees(math.pi / 4) == "45°"


def test_each_column_of_components_has_a_bar_below_it_and_a_flat_map_is_a_sentence() -> None:
    objectives = [hs.create_objective(name) for name in ("met", "infonce")]
    figure = component_maps(objectives, AngleGrid(points=5, batches=10, negatives=7))
    maps, bars = figure.axes[:6], figure.axes[6:]
    assert [axis.get_title(loc="left") for axis in maps] == [
        *("met\ngradient kept", "the hardest's share", "ratio"),
        *("infonce\ngradient kept", "the hardest's share", "ratio"),
    ]
    flat = [place for place, axis in enumerate(maps) if not axis.collections]
    assert flat == [1, 5]  # a triplet has one negative, InfoNCE a ratio of 1
    assert [maps[place].texts[0].get_text() for place in flat] == ["1 at all angles"] * 2
    assert [bar.get_xlabel() for bar in bars] == [
        "gradient kept, mean GD", "ratio R", "share of the weight on the hardest"
    ]  # fmt: skip
    for bar, column in zip(bars, (0, 2, 1), strict=True):
        assert bar.get_position().x0 == pytest.approx(maps[column].get_position().x0)
        assert bar.get_position().y1 < maps[3 + column].get_position().y0
    assert "Li et al. 2024" in figure.texts[1].get_text()


def test_a_map_that_hardly_changes_is_told_by_its_ends() -> None:
    values = np.array([[0.010, 0.012], [0.011, 0.02]])
    assert _sentence(HeatMap("", values), (0.0, 1.0)) == "0.01 to 0.02 at all angles"
    assert _sentence(HeatMap("", values), (0.0, 0.02)) == ""
    crossed = np.array([[True, False], [False, False]])
    assert _sentence(HeatMap("", np.ones((2, 2)), shaded=crossed), (0.0, 2.0)) == "1 wherever it is defined"
