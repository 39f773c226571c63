"""Predicted beside measured quality of objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hypersphere.figures.anatomy import INK, frame, new_figure
from hypersphere.figures.comparison import COLOURS
from hypersphere.figures.conjectures import legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_predictions(
    quality: Sequence[float], panels: Mapping[str, Sequence[float]], composed: Sequence[bool]
) -> Figure:
    """A panel for each set of numbers: a dot for each objective, on the diagonal if the prediction was right."""
    figure = new_figure(3.6 * len(panels), 3.7)
    figure.set_layout_engine("constrained")
    everything = [*quality, *(value for each in panels.values() for value in each)]
    low, high = min(everything), max(everything)
    pad = 0.04 * (high - low or 1.0)
    for place, (title, predicted) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), place + 1)
        frame(axes)
        axes.plot([low - pad, high + pad], [low - pad, high + pad], color="#9aa5b1", linewidth=1)
        for kind, colour, mark, name in ((True, COLOURS[0], "o", "composed"), (False, COLOURS[1], "^", "registered")):
            chosen = [row for row, is_composed in enumerate(composed) if is_composed == kind]
            axes.plot(
                [predicted[row] for row in chosen], [quality[row] for row in chosen], mark, color=colour,
                markersize=4.5, alpha=0.75, markeredgewidth=0, label=name,
            )  # fmt: skip
        axes.set_xlim(low - pad, high + pad)
        axes.set_ylim(low - pad, high + pad)
        axes.set_xlabel("predicted from the other objectives", size=8.5, color=INK)
        axes.set_ylabel("measured test score" if place == 0 else "", size=8.5, color=INK)
        axes.set_title(title, size=8.5, color=INK, loc="left")
    legend_below(figure, figure.axes)
    return figure
