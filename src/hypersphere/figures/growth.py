"""Time and memory against the size of the batch: for each subject a panel of either, on logarithmic axes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _SOFT, _LINE = "#22303c", "#6b7885", "#dde3e8"
# The first curve matters most; colour-blind readers must be able to distinguish the others as well.
_FIRST = "#1f6fb2"
_KNOWN = {"limit": ("#8a949e", "--", 1.3), "plain": ("#c8501e", "-", 1.4)}
_OTHERS = ("#2f7d4f", "#8e4fa8", "#b8860b", "#c2477f", "#4a4a4a")


@dataclass(frozen=True)
class Curve:
    """Points of one contestant; ``beyond`` is the first size, if any, at which the contestant exceeds a limit."""

    label: str
    points: Sequence[tuple[int, float]]
    beyond: int | None = None


@dataclass(frozen=True)
class GrowthPanel:
    """One subject: seconds, seconds divided by those of one contestant, and bytes of each contestant."""

    title: str
    seconds: Sequence[Curve]
    relative: Sequence[Curve]
    bytes: Sequence[Curve]


def draw_growth(
    title: str, panels: Sequence[GrowthPanel], first: str, note: str = "", dpi: int = 110, columns: int | None = None
) -> bytes:
    """A PNG with panels of each subject's time, its time relative to that of ``first`` (if panels have it), and its
    memory."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    everything = [curve for panel in panels for curve in (*panel.seconds, *panel.relative, *panel.bytes)]
    styles = _styles({curve.label for curve in everything}, first)
    beyond = any(curve.beyond for curve in everything)
    parts: list[tuple[str, list[Sequence[Curve]], Callable[[float, int], str]]] = [
        ("Time of one forward and backward", [panel.seconds for panel in panels], _seconds),
        (f"Time relative to {first} (above 1: slower)", [panel.relative for panel in panels], _times),
        ("Peak memory above the inputs", [panel.bytes for panel in panels], _bytes),
    ]
    parts = [part for part in parts if any(part[1])]
    columns = columns or min(len(panels), max(3, math.ceil(math.sqrt(1.3 * len(panels)))))
    lines = math.ceil(len(panels) / columns)
    width = max(2.2 * columns + 0.8, 9.0)
    together = sum(0.55 + 0.08 * len(label) for label in styles) + 2.4 * beyond  # inches
    marks_in_line = len(styles) + beyond if together < width else int(width / 2.1)
    heading = 0.85 + 0.22 * math.ceil((len(styles) + beyond) / max(marks_in_line, 1))
    part_height = (1.7 if lines > 1 else 2.2) * lines + 0.8
    height = heading + len(parts) * part_height
    figure = Figure(figsize=(width, height), facecolor="white")
    _heading(figure, title, note, styles, marks_in_line, beyond)
    for place, (name, curves, unit) in enumerate(parts):
        top = height - heading - place * part_height
        figure.text(0.6 / width, (top - 0.05) / height, name, size=11, weight="bold", color=_INK, va="top")
        grid = figure.add_gridspec(
            lines,
            columns,
            left=0.6 / width,
            right=1 - 0.2 / width,
            top=(top - 0.52) / height,
            bottom=(top - part_height + 0.42) / height,
            hspace=0.34,
            wspace=0.12,
        )
        axes = [figure.add_subplot(grid[k // columns, k % columns]) for k in range(len(panels))]
        _part(axes, [panel.title for panel in panels], curves, styles, unit, columns)
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def _styles(labels: set[str], first: str) -> dict[str, dict[str, Any]]:
    """A style for each contestant, the same in every panel: the first, the known ones, then the others by name."""
    looks = {first: (_FIRST, "-", 2.2), **_KNOWN}
    for place, label in enumerate(sorted(labels - looks.keys())):
        looks[label] = (_OTHERS[place % len(_OTHERS)], "-", 1.4)
    return {
        label: {"color": colour, "linestyle": line, "linewidth": width, "zorder": 5 if label == first else 3}
        for label, (colour, line, width) in looks.items()
        if label in labels
    }


def _heading(
    figure: Figure, title: str, note: str, styles: dict[str, dict[str, Any]], marks_in_line: int, beyond: bool
) -> None:
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    figure.text(0.2 / width, 1 - 0.16 / height, title, size=14, weight="bold", color=_INK, va="top")
    figure.text(0.2 / width, 1 - 0.47 / height, note, size=8.5, color=_SOFT, va="top")
    marks = [Line2D([], [], label=label, **style) for label, style in styles.items()]
    if beyond:
        marks.append(Line2D([], [], label="ends here: beyond a limit", color=_SOFT, linestyle="", marker="x"))
    figure.legend(
        handles=marks,
        loc="upper left",
        bbox_to_anchor=(0.1 / width, 1 - 0.62 / height),
        ncols=max(min(len(marks), marks_in_line), 1),
        frameon=False,
        fontsize=9,
        labelcolor=_INK,
        handlelength=1.9,
        columnspacing=1.4,
    )


def _part(
    axes: Sequence[Axes],
    titles: Sequence[str],
    curves: Sequence[Sequence[Curve]],
    styles: dict[str, dict[str, Any]],
    unit: Callable[[float, int], str],
    columns: int,
) -> None:
    """Panels on common axes."""
    values = [value for each in curves for curve in each for _, value in curve.points]
    sizes = sorted({n for each in curves for curve in each for n, _ in curve.points})
    for place, (axis, title, lines) in enumerate(zip(axes, titles, curves, strict=True)):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_title(title, size=9.5, color=_INK, pad=3, loc="left")
        for curve in lines:
            _draw(axis, curve, styles[curve.label])
        _frame(axis, sizes, unit, left=place % columns == 0, bottom=place + columns >= len(titles))
        if values:
            axis.set_ylim(min(values) / 2, max(values) * 2)
            axis.set_xlim(sizes[0] / 1.5, sizes[-1] * 1.5)


def _draw(axis: Axes, curve: Curve, style: dict[str, Any]) -> None:
    x, y = zip(*curve.points, strict=True)
    axis.plot(x, y, marker="o", markersize=2.6, **style)
    if curve.beyond is not None:
        axis.plot(x[-1], y[-1], marker="x", markersize=7, markeredgewidth=1.6, color=style["color"], zorder=6)


def _frame(axis: Axes, sizes: Sequence[int], unit: Callable[[float, int], str], left: bool, bottom: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis.grid(color=_LINE, linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(_LINE)
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_batch))
    axis.yaxis.set_major_locator(LogLocator(base=10, numticks=6))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(unit))
    axis.tick_params(length=0, labelsize=7.5, colors=_SOFT, labelleft=left, labelbottom=bottom)
    if bottom:
        axis.set_xlabel("batch N", size=7.5, color=_SOFT, labelpad=1)


def _batch(value: float, _: int) -> str:
    return f"{value:.0f}" if value < 1024 else f"{value / 1024:g}k"


def _seconds(value: float, _: int) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= unit * 0.999:
            return f"{value / unit:g} {name}"
    return f"{value * 1e9:g} ns"


def _times(value: float, _: int) -> str:
    return f"{value:g}×"


def _bytes(value: float, _: int) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit * 0.999:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"
