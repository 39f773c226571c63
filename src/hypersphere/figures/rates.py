"""Scores over learning rates: curves with intervals, the phases of a rate, and pairs beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import INK, LINE, SOFT, frame, new_figure
from hypersphere.figures.comparison import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_APART = 0.045  # decades between two curves at the same rate, so that their intervals do not overlap


@dataclass(frozen=True)
class Point:
    """Mean and interval at one learning rate. lost: some of its runs have no score of their own."""

    rate: float
    mean: float
    low: float = math.nan
    high: float = math.nan
    lost: bool = False


@dataclass(frozen=True)
class Line:
    """One line of panels and its label; log: on a logarithmic axis; level, about: a dotted line and its name."""

    label: str
    panels: Mapping[str, Mapping[str, Sequence[Point]]]  # title → curves by name
    log: bool = False
    level: float | None = None
    about: str = ""


@dataclass(frozen=True)
class Pair:
    """A base alone and with anchors: (mean, low, high) of each, and both as published."""

    label: str
    alone: tuple[float, float, float] | None
    anchored: tuple[float, float, float] | None
    published: tuple[float, float] | None = None


def draw_rates(lines: Sequence[Line], lost: str = "") -> Figure:
    """Panels in lines over a common logarithmic axis of learning rates. ``lost``: the meaning of an open marker."""
    titles = list(dict.fromkeys(title for line in lines for title in line.panels))
    figure = new_figure(max(2.5 * len(titles), 6.4) + 0.6, 2.35 * len(lines) + 0.8)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(len(lines), len(titles), squeeze=False, sharex=True, sharey="row")
    names = list(dict.fromkeys(name for line in lines for curves in line.panels.values() for name in curves))
    for above, line in enumerate(lines):
        for across, title in enumerate(titles):
            axis = axes[above, across]
            _curves(axis, line.panels.get(title, {}), names)
            _level(axis, line)
            if above == 0:
                axis.set_title(title, size=9.5, color=INK, loc="left")
        axes[above, 0].set_ylabel(line.label, size=9, color=INK)
    for axis in axes[-1]:
        axis.set_xlabel("learning rate", size=9, color=INK)
    _legend(figure, names, lost if _any_lost(lines) else "")
    return figure


def draw_phases(
    name: str,
    points: Sequence[Point],
    runs: Sequence[tuple[float, float]],
    levels: Mapping[str, float],
    phases: Mapping[str, tuple[float, float]],
    y: str,
) -> Figure:
    """One curve over the rates, every run as a dot; above it the phases as published, each a band of rates."""
    figure = new_figure(6.8, 3.9)
    figure.set_layout_engine("constrained")
    axis = figure.subplots()
    _curves(axis, {name: points}, [name])
    axis.plot(
        [1.12 * rate for rate, _ in runs], [score for _, score in runs], "o", color=COLOURS[0], markersize=3, alpha=0.45
    )
    for style, (about, value) in zip(((0, (1, 2)), (0, (6, 3))), levels.items(), strict=False):
        axis.axhline(value, color=SOFT, linewidth=1, linestyle=style, label=about)
    rates = [point.rate for point in points]
    if rates:
        low, high = min(rates) / 2, max(rates) * 2
        axis.set_xlim(low, high)
        for place, (phase, (start, end)) in enumerate(phases.items()):
            left, right = max(start / 10**0.5, low), min(end * 10**0.5, high)
            if left < right:
                axis.axvspan(left, right, color=INK, alpha=(0.03, 0.07, 0.13)[place % 3], linewidth=0, zorder=0)
                words: dict[str, Any] = {"ha": "center", "va": "bottom", "size": 8.5, "color": SOFT}
                axis.text((left * right) ** 0.5, 1.01, phase, transform=axis.get_xaxis_transform(), **words)
    axis.set_title("phases as published:", size=8.5, color=SOFT, loc="left", pad=17)
    axis.set_xlabel("learning rate", size=9, color=INK)
    axis.set_ylabel(y, size=9, color=INK)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5, labelcolor=INK)
    return figure


def draw_pairs(panels: Mapping[str, Sequence[Pair]], x: str, columns: int = 3) -> Figure:
    """Each base on a line of its own: alone and with anchors, measured above and published, open, below."""
    from matplotlib.lines import Line2D

    rows = -(-len(panels) // columns)
    most = max(len(pairs) for pairs in panels.values())
    figure = new_figure(3.1 * columns + 1.0, (0.52 * most + 0.75) * rows + 0.6)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axis, (title, pairs) in zip(axes.flat, panels.items(), strict=False):
        _pairs(axis, pairs)
        axis.set_title(title, size=9.5, color=INK, loc="left")
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(x, size=9, color=INK)
    handles = [
        Line2D([], [], color=COLOURS[place], marker=_MARKERS[place], linestyle="", markersize=6,
               markerfacecolor=COLOURS[place] if here else "white", label=f"{name}, {'here' if here else 'published'}")
        for place, name in enumerate(("base alone", "with anchors")) for here in (True, False)
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=INK)
    return figure


def _pairs(axis: Axes, pairs: Sequence[Pair]) -> None:
    frame(axis)
    for place, pair in enumerate(reversed(pairs)):
        for which, measured in enumerate((pair.alone, pair.anchored)):
            colour, marker = COLOURS[which], _MARKERS[which]
            if measured is not None:
                mean, low, high = measured
                axis.plot([low, high], [place + 0.14] * 2, color=colour, linewidth=2, alpha=0.5)
                axis.plot(mean, place + 0.14, marker, color=colour, markersize=6)
            if pair.published is not None:
                where = (pair.published[which], place - 0.18)
                axis.plot(*where, marker, color=colour, markerfacecolor="none", markersize=5.5)
        if place:
            axis.axhline(place - 0.5, color=LINE, linewidth=0.8)
    axis.set_yticks(range(len(pairs)), [pair.label for pair in reversed(pairs)], size=9)
    axis.set_ylim(-0.5, len(pairs) - 0.5)


def _curves(axis: Axes, curves: Mapping[str, Sequence[Point]], names: Sequence[str]) -> None:
    frame(axis)
    axis.set_xscale("log")
    axis.minorticks_off()
    for name, points in curves.items():
        place = names.index(name)
        colour, marker = COLOURS[place % len(COLOURS)], _MARKERS[place % len(_MARKERS)]
        shift = 10 ** ((place - (len(names) - 1) / 2) * _APART)
        known = [point for point in points if math.isfinite(point.mean)]
        x, y = [point.rate * shift for point in known], [point.mean for point in known]
        axis.plot(x, y, color=colour, linestyle=_LINES[place % len(_LINES)], linewidth=1.5, label=name, zorder=2)
        for where, point in zip(x, known, strict=True):
            axis.plot([where] * 2, [point.low, point.high], color=colour, linewidth=1.1, alpha=0.7)
            face = "white" if point.lost else colour
            axis.plot(where, point.mean, marker, color=colour, markerfacecolor=face, markersize=4.8, zorder=3)


def _level(axis: Axes, line: Line) -> None:
    if line.log and any(
        point.mean > 0 for curves in line.panels.values() for each in curves.values() for point in each
    ):
        axis.set_yscale("log")
        axis.yaxis.minorticks_off()
    if line.level is not None:
        axis.axhline(line.level, color=SOFT, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        axis.text(
            0.015, line.level, line.about, transform=axis.get_yaxis_transform(), size=7.5, color=SOFT, va="bottom"
        )


def _any_lost(lines: Sequence[Line]) -> bool:
    return any(point.lost for line in lines for curves in line.panels.values() for each in curves.values()
               for point in each)  # fmt: skip


def _legend(figure: Figure, names: Sequence[str], lost: str) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[place % len(COLOURS)], marker=_MARKERS[place % len(_MARKERS)], markersize=5,
               linestyle=_LINES[place % len(_LINES)], label=name)
        for place, name in enumerate(names)
    ]  # fmt: skip
    if lost:
        handles.append(Line2D([], [], color=SOFT, marker="o", markerfacecolor="white", linestyle="", label=lost))
    look: dict[str, Any] = {"frameon": False, "fontsize": 9, "labelcolor": INK, "columnspacing": 1.3}
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) if len(handles) < 5 else 3, **look)
