"""Accuracy against batch size and temperature, its spread over both, and the dimensions that an encoder uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import INK, frame, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, of different lightness; markers and lines differ as well.
_LOOKS: dict[str, tuple[str, str, str]] = {
    "SimCLR": ("#222222", "o", "-"),
    "DCL": ("#e69f00", "s", "--"),
    "DHEL": ("#0072b2", "^", "-"),
    "KCL": ("#cc5f98", "D", "-."),
}
_OTHER = ("#6b7885", "v", ":")
_SHADES = (("#9ecae9", "o", "-"), ("#2171b5", "s", "--"), ("#08204a", "^", "-."), ("#b0600a", "D", ":"))


@dataclass(frozen=True)
class Curve:
    """One objective, or one batch size: (x, mean, low, high); low and high are nan where there is no interval."""

    label: str
    points: Sequence[tuple[float, float, float, float]]


@dataclass(frozen=True)
class Interval:
    """The values of all seeds, with the 95 % interval of their mean (nan: none)."""

    label: str
    values: Sequence[float]
    low: float
    high: float


def draw_batch_sizes(
    here: Mapping[str, Sequence[Curve]], spreads: Sequence[Interval], others: Mapping[str, Sequence[Curve]]
) -> Figure:
    """Above: accuracy against the batch size, measured here, a panel for each score. Below: best minus worst batch
    size, and published values, a panel for each data set."""
    figure = _figure(11.5, 6.6)
    axes = figure.subplots(2, max(len(here), 1 + len(others)), squeeze=False)
    for axis, (title, curves) in zip(axes[0], here.items(), strict=False):
        _against_batch(axis, curves)
        _title(axis, f"Here: {title}")
    _dots(axes[1, 0], spreads)
    axes[1, 0].set_xlim(left=0)
    _title(axes[1, 0], "Here: best minus worst batch size")
    axes[1, 0].set_xlabel("points of accuracy (linear probe, all labels)")
    for axis, (title, curves) in zip(axes[1, 1:], others.items(), strict=False):
        _against_batch(axis, curves)
        _title(axis, f"Third party: {title}")
        axis.set_ylabel("top-1, % (read from a bar chart)")
    axes[0, 0].set_ylabel("test accuracy, %")
    _finish(axes.flat)
    _legend(figure, [axes[0, 0], *axes[1, 1:]])
    return figure


def draw_grid(panels: Mapping[str, tuple[str, Sequence[Curve]]], spreads: Sequence[Interval]) -> Figure:
    """A panel for each objective, accuracy against its temperature, a curve for each batch size; right: the spread.

    panels: by objective, the name of the setting and the curves.
    """
    figure = _figure(12.5, 4.0)
    count = max(len(panels), 1)
    *axes, right = figure.subplots(1, count + 1, width_ratios=(*(1.0,) * count, 1.35), squeeze=False)[0]
    for axis in axes[1:]:
        axis.sharey(axes[0])
        axis.tick_params(labelleft=False)
    batches = list(dict.fromkeys(curve.label for _, curves in panels.values() for curve in curves))
    for axis, (name, (setting, curves)) in zip(axes, panels.items(), strict=False):
        ticks = sorted({point[0] for curve in curves for point in curve.points})
        for curve in curves:
            place = batches.index(curve.label)
            at = [(ticks.index(x) + 0.07 * (place - (len(batches) - 1) / 2), *rest) for x, *rest in curve.points]
            _line(axis, curve.label, at, _SHADES[place % len(_SHADES)])
        axis.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])
        axis.set_xlim(-0.4, max(len(ticks) - 0.6, 0.4))
        axis.set_xlabel(setting)
        _title(axis, name)
    axes[0].set_ylabel("test accuracy, %\n(linear probe, all labels)")
    _dots(right, spreads)
    right.set_xlim(left=0)
    right.set_xlabel("points of accuracy")
    _title(right, "Best minus worst")
    _finish([*axes, right])
    _legend(figure, axes)
    return figure


def draw_dimensions(panels: Mapping[str, Sequence[Interval]]) -> Figure:
    """A panel for each quantity, a line for each objective: every seed as a dot, the mean with its 95 % interval."""
    rows = max((len(intervals) for intervals in panels.values()), default=1)
    figure = _figure(12.5, 1.3 + 0.33 * rows)
    axes = figure.subplots(1, max(len(panels), 1), sharey=True, squeeze=False)[0]
    for axis, (title, intervals) in zip(axes, panels.items(), strict=False):
        _dots(axis, intervals)
        _title(axis, title)
    _finish(axes)
    return figure


def _against_batch(axis: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import NullLocator

    ticks = sorted({point[0] for curve in curves for point in curve.points})
    for place, curve in enumerate(curves):
        apart = 1.035 ** (place - (len(curves) - 1) / 2)  # so that intervals do not cover each other
        _line(axis, curve.label, [(x * apart, *rest) for x, *rest in curve.points], _LOOKS.get(curve.label, _OTHER))
    if ticks:
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("batch size")


def _line(axis: Axes, label: str, points: Sequence[Sequence[float]], look: tuple[str, str, str]) -> None:
    colour, marker, line = look
    if not points:
        return
    x, mean, low, high = zip(*points, strict=True)
    axis.plot(x, mean, color=colour, marker=marker, linestyle=line, markersize=4.5, linewidth=1.3, label=label)
    for at, bottom, top in zip(x, low, high, strict=True):
        if math.isfinite(bottom):
            axis.plot([at, at], [bottom, top], color=colour, linewidth=1.1, alpha=0.75, marker="_", markersize=4)


def _dots(axis: Axes, intervals: Sequence[Interval]) -> None:
    """One line for each interval, the first on top."""
    for place, each in enumerate(intervals):
        colour, marker, _ = _LOOKS.get(each.label.split(" ")[0], _OTHER)
        if math.isfinite(each.low):
            axis.plot([each.low, each.high], [place] * 2, color=colour, linewidth=7, alpha=0.28, solid_capstyle="butt")
        if each.values:
            axis.plot(each.values, [place] * len(each.values), marker, color=colour, markersize=3.6, alpha=0.8)
            axis.plot(
                [sum(each.values) / len(each.values)], [place], "|", color=INK, markersize=15, markeredgewidth=1.6
            )
    axis.set_yticks(range(len(intervals)), [each.label for each in intervals])
    axis.set_ylim(max(len(intervals), 1) - 0.4, -0.6)


def _figure(width: float, height: float) -> Figure:
    figure = new_figure(width, height)
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.06)
    return figure


def _title(axis: Axes, words: str) -> None:
    axis.set_title(words, size=9.5, color=INK, loc="left")


def _finish(axes: Iterable[Axes]) -> None:
    for axis in axes:
        frame(axis)
        if not axis.lines:
            axis.set_axis_off()
        for words in (axis.xaxis.label, axis.yaxis.label):
            words.set(size=8.5, color=INK)


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if handles:
        look: dict[str, Any] = {"frameon": False, "fontsize": 9, "labelcolor": INK, "handlelength": 2.8}
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), **look)
