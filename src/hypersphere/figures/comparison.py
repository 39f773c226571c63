"""Figures of a comparison: scores, curves over training, and alignment against uniformity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hypersphere.figures.anatomy import INK, frame, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can distinguish; further curves repeat them with another line.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
LINES = ("-", "--", ":")
WIDTH = 6.4

Curve = tuple[Sequence[float], Sequence[Sequence[float]]]  # x, and one series of values for each seed


def draw_ranking(
    scores: Mapping[str, Sequence[float]], intervals: Mapping[str, tuple[float, float]], title: str, axis: str
) -> Figure:
    """Every run as a dot, the mean with its 95 % interval; best on top."""
    figure = new_figure(WIDTH, 0.95 + 0.32 * len(scores))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    frame(axes)
    for place, name in enumerate(reversed(list(scores))):
        values, (low, high) = list(scores[name]), intervals[name]
        if math.isfinite(low):
            axes.plot([low, high], [place, place], color=COLOURS[0], linewidth=6, alpha=0.3, solid_capstyle="butt")
        axes.plot(values, [place] * len(values), "o", color=COLOURS[0], markersize=3.2, alpha=0.75)
        axes.plot([sum(values) / len(values)], [place], "|", color=INK, markersize=14, markeredgewidth=1.6)
    axes.set_yticks(range(len(scores)), list(reversed(list(scores))), size=8.5)
    axes.set_ylim(-0.6, len(scores) - 0.4)
    axes.set_xlabel(axis, size=8.5, color=INK)
    axes.set_title(title, size=9, color=INK, loc="left")
    return figure


def draw_curves(curves: Mapping[str, Curve], title: str, x: str, y: str, log: bool = False) -> Figure:
    """The mean over seeds, in a band from the lowest to the highest."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(WIDTH, 3.5)
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    frame(axes)
    for place, (name, (where, series)) in enumerate(curves.items()):
        colour, line = COLOURS[place % len(COLOURS)], LINES[place // len(COLOURS) % len(LINES)]
        columns = list(zip(*series, strict=True))
        means = [sum(column) / len(column) for column in columns]
        axes.plot(where, means, line, color=colour, label=name, linewidth=1.6, marker="o", markersize=2.6)
        if len(series) > 1:
            lowest, highest = [min(column) for column in columns], [max(column) for column in columns]
            axes.fill_between(where, lowest, highest, color=colour, alpha=0.12, linewidth=0)
    if log:
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(x, size=8.5, color=INK)
    axes.set_ylabel(y, size=8.5, color=INK)
    axes.set_title(title, size=9, color=INK, loc="left")
    figure.legend(loc="outside right upper", fontsize=8.5, frameon=False)
    return figure


def draw_map(points: Sequence[tuple[str, float, float, float]], title: str, quality: str) -> Figure:
    """Alignment against uniformity, coloured by quality: (name, alignment, uniformity, score) of every run."""
    figure = new_figure(WIDTH, 3.8)
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    frame(axes)
    names = [name for name, *_ in points]
    alignment = [point[1] for point in points]
    uniformity = [point[2] for point in points]
    scores = [point[3] for point in points]
    drawn = axes.scatter(uniformity, alignment, c=scores, cmap="cividis", s=28, edgecolors=INK, linewidths=0.4)
    bar = figure.colorbar(drawn, ax=axes)
    bar.set_label(quality, size=8.5, color=INK)
    for name in dict.fromkeys(names):
        mine = [place for place, each in enumerate(names) if each == name]
        centre = (sum(uniformity[k] for k in mine) / len(mine), sum(alignment[k] for k in mine) / len(mine))
        axes.annotate(name, centre, textcoords="offset points", xytext=(6, 5), size=8, color=INK)
    axes.set_xlabel("uniformity (lower: more even)", size=8.5, color=INK)
    axes.set_ylabel("alignment (lower: closer)", size=8.5, color=INK)
    axes.set_title(title, size=9, color=INK, loc="left")
    return figure
