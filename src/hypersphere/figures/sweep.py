"""Effect of a setting on an objective: its anatomy over several values of the setting."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypersphere.anatomy import Anatomy
from hypersphere.anatomy.anatomy import KEPT
from hypersphere.figures.anatomy import INK, SOFT, frame, heading, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#1f6fb2", "#c8501e", "#4a5763", "#2f8f5b", "#8a5fb0", "#b8860b")
_PANELS = {
    KEPT: "gradient kept\n(1: all, 0: none)",
    "effective negatives": "effective negatives",
    "weight of the hardest": "weight of the hardest\n(share)",
    "mean ratio": "ratio R (dotted: median\nlower end of Lemma 1)",
}


def plot_sweep(
    setting: str,
    values: Sequence[Any],
    curves: Mapping[str, Sequence[Anatomy]],
    step: float = 0.1,
    negative: str = "hardest",
    *,
    source: str = "",
) -> Figure:
    """One curve for each objective over the values of one setting; an objective without the setting is a level line."""
    figure = new_figure(9.0, 6.4)
    scope = next(iter(curves.values()))[0].scope
    about = textwrap.fill(source, 115, max_lines=2, placeholder=" …")
    heading(figure, f"What {setting} does to the anchors", f"{about}\nscope {scope}; terms of Li et al. 2024")
    grid = figure.add_gridspec(2, 2, left=0.1, right=0.97, bottom=0.09, top=0.85, hspace=0.34, wspace=0.26)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    places = list(values) if numeric else list(range(len(values)))
    for panel, (key, label) in enumerate(_PANELS.items()):
        axis = figure.add_subplot(grid[panel // 2, panel % 2])
        for colour, (name, anatomies) in zip(_COLOURS * len(curves), curves.items(), strict=False):
            _curve(axis, places, key, name, [each.numbers(step, negative) for each in anatomies], colour)
        frame(axis)
        _values(axis, values, places, numeric)
        axis.set_ylabel(label, size=8.5)
        if panel > 1:
            axis.set_xlabel(setting, size=9)
        if panel == 0:
            axis.set_ylim(-0.03, max(1.06, axis.get_ylim()[1]))
            axis.legend(frameon=False, fontsize=8, labelcolor=INK)
    return figure


def _curve(
    axis: Axes, places: Sequence[Any], key: str, name: str, numbers: Sequence[Mapping[str, float]], colour: str
) -> None:
    def drawn(which: str, **look: Any) -> None:
        heights = [each[which] for each in numbers]
        if len(heights) == 1:
            axis.axhline(heights[0], color=colour, linewidth=1.2, **{"linestyle": "--", **look})
        else:
            axis.plot(places, heights, color=colour, markersize=4, **look)

    drawn(key, label=name, **({"marker": "o"} if len(numbers) > 1 else {}))
    if key == "mean ratio":
        drawn("Lemma 1's lower end, median", linestyle=":")


def _values(axis: Axes, values: Sequence[Any], places: Sequence[Any], numeric: bool) -> None:
    """A logarithmic axis where the values span a decade; a tick at every value where there is room."""
    wide = numeric and min(places) > 0 and max(places) / min(places) >= 8
    if wide:
        axis.set_xscale("log")
        axis.minorticks_off()
    apart = [abs(math.log(b / a)) if wide else abs(b - a) for a, b in pairwise(places)]
    if not numeric or (apart and min(apart) > 0.06 * sum(apart)):
        axis.set_xticks(list(places), [f"{value:g}" if numeric else str(value) for value in values], color=SOFT)
