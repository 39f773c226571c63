"""Cells coloured by a gradient: the ends of the scale, frames, and cells that are not there."""

from __future__ import annotations

from matplotlib import colormaps

from hypersphere.figures.collapse import Departure, draw_departures
from hypersphere.figures.maps import COLOURS


def test_colours_end_at_the_limits_and_a_cell_that_stays_has_a_frame() -> None:
    cells = {("kcl", "point"): Departure(0.0, "leaves", False), ("mhe", "point"): Departure(1e5, "stays", True),
             ("mhe", "line"): Departure(0.1, "leaves", False)}  # fmt: skip
    figure = draw_departures("Collapse", ["kcl", "mhe"], {"point": "a point", "line": "a line"}, cells)
    axis = figure.axes[0]
    weak, strong, middle = (each.get_facecolor() for each in axis.patches if each.get_fill())
    assert (weak, strong, middle) == (colormaps[COLOURS](0.0), colormaps[COLOURS](1.0), colormaps[COLOURS](0.5))
    (frame,) = (each for each in axis.patches if not each.get_fill())
    assert frame.get_x() < 1 < frame.get_y() < 2  # of mhe, which stands second, at a point
    assert [text.get_text() for text in axis.texts] == ["leaves", "·", "stays", "leaves"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a point", "a line"]
