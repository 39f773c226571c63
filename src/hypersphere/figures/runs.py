"""Several runs side by side: what the monitor measured, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import INK, frame, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour and line of each run in turn: told apart in grey as well.
STYLES: tuple[tuple[str, Any], ...] = (
    ("#1f5f8b", "-"),
    ("#c2571a", "--"),
    ("#3a7d44", "-."),
    ("#7b4b94", ":"),
    ("#444444", (0, (5, 1, 1, 1, 1, 1))),
)


def draw_runs(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], quantities: Sequence[tuple[str, str]], columns: int = 3
) -> Figure:
    """One panel per quantity (key, title) over the steps, one line per run; points where something was measured."""
    if len(runs) > len(STYLES):
        raise ValueError(f"at most {len(STYLES)} runs can be told apart in one figure, not {len(runs)}")
    lines = math.ceil(len(quantities) / columns)
    figure = new_figure(3.1 * columns, 2.35 * lines + 0.45)
    axes = figure.subplots(lines, columns, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= len(quantities):
            axis.set_visible(False)
            continue
        key, title = quantities[place]
        frame(axis)
        for (name, records), (colour, line) in zip(runs.items(), STYLES, strict=False):
            points = [(r["step"], r[key]) for r in records if r.get(key) is not None and math.isfinite(r[key])]
            if points:
                steps, values = zip(*points, strict=True)
                axis.plot(steps, values, "o", color=colour, linestyle=line, linewidth=1.5, markersize=2.6, label=name)
        axis.set_title(title, size=9, color=INK, loc="left")
        if place >= len(quantities) - columns:
            axis.set_xlabel("step", size=8.5, color=INK)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    top = 1 - 0.62 / (2.35 * lines + 0.45)  # room for the legend above the first titles
    figure.subplots_adjust(left=0.07, right=0.985, top=top, bottom=0.09, hspace=0.42, wspace=0.28)
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False, fontsize=9, handlelength=3)
    return figure
