"""What objectives do at collapsed batches: a heat map of their gradients beside them, and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypersphere.figures.anatomy import INK, SOFT
from hypersphere.figures.maps import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMITS = (-4.0, 2.0)  # decades of the gradient


@dataclass(frozen=True)
class Departure:
    """One objective at one start: gradient beside it relative to a typical one, words, whether it stays."""

    gradient: float
    words: str
    stays: bool


def readable_on(colour: tuple[float, ...]) -> str:
    """White or black, whichever has the larger contrast to a colour, by the relative luminance of WCAG 2.

    >>> readable_on((0.0, 0.0, 0.3)), readable_on((0.5, 0.5, 0.5)), readable_on((1.0, 1.0, 0.8))
    ('white', 'black', 'black')
    """
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour[:3])
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


def draw_departures(
    title: str, rows: Sequence[str], columns: Mapping[str, str], cells: Mapping[tuple[str, str], Departure]
) -> Figure:
    """A table of cells coloured by the gradient; those that stay have a frame. ``columns``: titles by start."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(
        figsize=(2.2 + 1.75 * len(columns), 2.0 + 0.235 * len(rows)), facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    scale, colours = Normalize(*LIMITS), colormaps[COLOURS]
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            cell = cells.get((row, column))
            if cell is None:
                axis.text(x + 0.5, y + 0.53, "·", size=8, color=SOFT, ha="center", va="center")
                continue
            height = scale(math.log10(max(cell.gradient, 10 ** LIMITS[0])))
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colours(height), edgecolor="white", linewidth=1.2))
            if cell.stays:
                frame = Rectangle((x + 0.03, y + 0.1), 0.94, 0.8, fill=False, edgecolor="#c8501e", linewidth=2.2)
                axis.add_patch(frame)
            axis.text(
                x + 0.5, y + 0.53, cell.words, size=7.4, color=readable_on(colours(height)), ha="center", va="center"
            )
    axis.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axis.set_xticks([x + 0.5 for x in range(len(columns))], list(columns.values()), size=8.5, color=INK)
    axis.set_yticks([y + 0.5 for y in range(len(rows))], rows, size=8.5, color=INK)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(
        ScalarMappable(scale, colours), ax=axis, location="bottom", fraction=0.012, pad=0.01, aspect=45, extend="both"
    )
    bar.set_ticks(range(int(LIMITS[0]), int(LIMITS[1]) + 1))
    bar.set_ticklabels([f"{10.0**k:g}" for k in range(int(LIMITS[0]), int(LIMITS[1]) + 1)])
    bar.set_label("length of the gradient beside the start, relative to random rows", size=8.5, color=INK)
    bar.ax.tick_params(labelsize=8, colors=SOFT, length=2)
    bar.outline.set_visible(False)
    figure.suptitle(title, size=12.5, weight="bold", color=INK)
    return figure
