"""Maps over the angles share their colours and say where values go beyond them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.anatomy import AngleGrid
from hypersphere.figures.anatomy import plot
from hypersphere.figures.maps import HeatMap, Scale, _beyond, _degrees, _multiple, component_maps
from hypersphere.testing.example import views

VALUES = np.array([[0.0, 0.5], [1.0, 3.0]])


@pytest.mark.parametrize("limits, said", [((0, 3), "neither"), ((0, 2), "max"), ((0.5, 3), "min"), ((0.5, 2), "both")])
def test_a_bar_has_an_arrow_on_the_side_that_values_leave(limits: tuple[float, float], said: str) -> None:
    assert _beyond(Scale("x", limits), [HeatMap("", VALUES)]) == said
    assert _beyond(Scale("x", limits), [HeatMap("", VALUES, shaded=np.ones((2, 2), dtype=bool))]) == "neither"


def test_ticks_are_multiples_of_pi_or_degrees() -> None:
    assert [_multiple(k * math.pi / 8) for k in (0, 1, 4, 6, 8, 16)] == ["0", "π/8", "π/2", "3π/4", "π", "2π"]
    assert _degrees(math.pi / 4) == "45°"


def test_components_of_several_objectives_share_two_scales() -> None:
    objectives = [hs.create_objective(name) for name in ("met", "mhe")]
    figure = component_maps(objectives, AngleGrid(points=5, batches=10, negatives=7))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert [title for title in titles if title] == [
        f"{name}: {what}" for name in ("met", "mhe") for what in ("mean GD", "share of the hardest", "ratio")
    ]
    meshes = [axis.collections[0] for axis in figure.axes[:6]]
    assert {mesh.get_clim() for mesh in meshes} == {(0.0, 1.0), (0.0, 2.5)}
    assert len(figure.axes) == 8  # six maps and two bars


def test_losses_side_by_side_share_their_axes() -> None:
    z1, z2 = views(12, 5)
    found = [hs.dissect(hs.create_objective(name), z1, z2) for name in ("infonce", "met", "mhe")]
    axes = plot(found).axes
    for row in range(4):  # four panels of each loss follow one another
        assert len({axis.get_ylim() for axis in axes[row::4]}) == 1
    assert len({axis.get_xlim() for axis in axes[1::4]}) == 1
