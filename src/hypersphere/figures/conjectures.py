"""Figures of a contest of gradient components: cosines, sweeps of one setting, hardest shares, ratios, angles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import INK, LINE, SOFT, frame, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's blue and orange: colour-blind readers can distinguish them, and their lightness differs in grey.
DARK, LIGHT = "#0072b2", "#e69f00"
LOOKS = (("#0072b2", "o", "-"), ("#e69f00", "s", "--"), ("#444444", "^", ":"))
NOTHING = "not measured"


@dataclass(frozen=True)
class CosinePanel:
    """Shares of equal bins from -1 to 1 of positive and negative cosines, and their means."""

    title: str
    positive: Sequence[float]
    negative: Sequence[float]
    positive_mean: float | None
    negative_mean: float | None


@dataclass(frozen=True)
class SweepPanel:
    """Values of every seed at each setting; ``marked``: the place of the baseline."""

    title: str
    axis: str
    ticks: Sequence[str]
    values: Sequence[Sequence[float]]
    marked: int


@dataclass(frozen=True)
class AnglePanel:
    """Curves over steps by name, the range they should stay in, and the value in it that was assumed."""

    title: str
    curves: Mapping[str, Sequence[tuple[int, float]]]
    inside: tuple[float, float]
    assumed: float | None


def draw_cosines(panels: Sequence[CosinePanel]) -> Figure:
    """Histograms of positive and negative cosines, one panel below the other, with the gap of the means."""
    figure = panel_figure(7.2, 2.1 * len(panels) + 0.8)
    axes = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    looks: dict[str, dict[str, Any]] = {
        "negative pairs": {"facecolor": LIGHT, "edgecolor": "#8a5f00", "hatch": "///"},
        "positive pairs": {"facecolor": DARK, "edgecolor": "#00324f"},
    }
    top = max((share for panel in panels for share in (*panel.positive, *panel.negative)), default=1.0)
    for axis, panel in zip(axes, panels, strict=True):
        _quiet(axis)
        for (name, look), shares in zip(looks.items(), (panel.negative, panel.positive), strict=True):
            edges = [-1 + 2 * place / max(len(shares), 1) for place in range(len(shares) + 1)]
            if shares:
                axis.stairs(shares, edges, fill=True, alpha=0.75, linewidth=0.8, label=name, **look)
        _gap(axis, panel, top)
        axis.set_title(panel.title, size=10, color=INK, loc="left")
        axis.set_ylabel("share of the pairs")
        axis.set_ylim(0, 1.32 * top)
        if not panel.positive:
            _empty(axis)
    axes[-1].set_xlabel("cosine of held-out pairs")
    axes[-1].set_xlim(_lowest(panels) - 0.08, 1)
    legend_below(figure, axes)
    return figure


def _lowest(panels: Sequence[CosinePanel]) -> float:
    """The lower edge of the first bin with more than a thousandth of the pairs."""
    edges = [
        -1 + 2 * place / len(shares)
        for panel in panels
        for shares in (panel.positive, panel.negative)
        for place, share in enumerate(shares)
        if share > 1e-3
    ]
    return min(edges, default=-1.0)


def _gap(axis: Axes, panel: CosinePanel, top: float) -> None:
    """An arrow from the mean of the negatives to that of the positives."""
    low, high = panel.negative_mean, panel.positive_mean
    if low is None or high is None:
        return
    axis.annotate("", (high, 1.1 * top), (low, 1.1 * top), arrowprops={"arrowstyle": "<->", "color": INK, "lw": 1.1})
    words = f"gap of the means {high - low:.3f}"
    axis.text((low + high) / 2, 1.14 * top, words, ha="center", va="bottom", size=8.5, color=INK)
    axis.vlines([low, high], 0, 1.1 * top, color=INK, linewidth=0.8, linestyle=":")


def draw_sweeps(panels: Sequence[SweepPanel], score: str, given: float | None = None) -> Figure:
    """A panel for each setting: every seed a dot, the mean a line, the baseline ringed, the encoder as given dashed."""
    figure = panel_figure(3.5 * len(panels), 3.4)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        _sweep(axis, panel)
        if given is not None:
            axis.axhline(given, color=SOFT, linestyle=(0, (5, 3)), linewidth=1.1, label="encoder as given")
    axes[0].set_ylabel(score)
    legend_below(figure, axes)
    return figure


def _sweep(axis: Axes, panel: SweepPanel) -> None:
    _quiet(axis)
    known = [(place, list(values)) for place, values in enumerate(panel.values) if values]
    for place, values in known:
        axis.plot([place] * len(values), values, "o", color=DARK, alpha=0.45, markersize=4, label="a seed")
    means = [(place, fmean(values)) for place, values in known]
    if means:
        axis.plot(*zip(*means, strict=True), "-", color=DARK, linewidth=1.7, label="mean over seeds")
    else:
        _empty(axis)
    ring = [point for point in means if point[0] == panel.marked]
    if ring:
        look: dict[str, Any] = {"markersize": 13, "markerfacecolor": "none", "markeredgewidth": 1.5}
        axis.plot(*zip(*ring, strict=True), "o", color="#b3261e", label="the baseline", linestyle="none", **look)
    axis.set_xticks(range(len(panel.ticks)), panel.ticks)
    axis.set_xlim(-0.4, len(panel.ticks) - 0.6)
    axis.set_xlabel(panel.axis)
    axis.set_title(panel.title, size=10, color=INK, loc="left")


def draw_shares(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Share of the hardest negative against the temperature of a softmax, a curve for each encoder."""
    figure = panel_figure(6.4, 3.6)
    axis = figure.subplots()
    _quiet(axis)
    for (name, points), (colour, marker, line) in zip(curves.items(), LOOKS, strict=False):
        if points:
            axis.plot(*zip(*points, strict=True), line, color=colour, marker=marker, markersize=5, label=name)
    axis.set_xscale("log")
    ticks = sorted({tau for points in curves.values() for tau, _ in points})
    if ticks:
        axis.set_xticks(ticks, [f"{tau:g}" for tau in ticks])
        axis.minorticks_off()
    else:
        _empty(axis)
    axis.axhline(0.5, color=SOFT, linewidth=1, linestyle=":")
    axis.text(0.99, 0.505, "half of the weight", transform=axis.get_yaxis_transform(), ha="right", va="bottom", size=8,
              color=SOFT)  # fmt: skip
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("temperature τ of the softmax")
    axis.set_ylabel("share of the hardest negative")
    legend_below(figure, [axis])
    return figure


def draw_lower_ends(
    ends: Sequence[tuple[float, Sequence[float]]],
    ratios: Mapping[str, Sequence[tuple[int, float]]],
    cosines: SweepPanel,
) -> Figure:
    """a: quantiles (5, 25, 50, 75, 95 %) of the lower end by step; b: ratios during training; c: a sweep."""
    figure = panel_figure(11.5, 3.5)
    first, second, third = figure.subplots(1, 3)
    for place, (_, (lowest, low, middle, high, highest)) in enumerate(ends):
        first.plot([place, place], [lowest, highest], color=DARK, linewidth=1.4)
        first.plot([place, place], [low, high], color=DARK, linewidth=11, alpha=0.45, solid_capstyle="butt")
        first.plot([place - 0.16, place + 0.16], [middle, middle], color=INK, linewidth=2)
    first.set_xticks(range(len(ends)), [f"{step:g}" for step, _ in ends])
    first.set_xlim(-0.5, max(len(ends), 1) - 0.5)
    first.set_xlabel("step λ")
    first.set_ylabel("smallest ratio that brings closer")
    first.set_title("a  lower end of Lemma 1: 5, 25, 50, 75, 95 %", size=10, color=INK, loc="left")
    second.axhline(1, color=SOFT, linewidth=1, linestyle=(0, (5, 3)))
    for (name, points), (colour, marker, line) in zip(ratios.items(), LOOKS, strict=False):
        if points:
            second.plot(*zip(*points, strict=True), line, color=colour, marker=marker, markersize=4.5, label=name)
            second.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    second.set_xlabel("step of training")
    second.set_ylabel("ratio, median over anchors")
    second.set_title("b  ratios during training", size=10, color=INK, loc="left")
    _quiet(first, second)
    _sweep(third, cosines)
    third.set_ylabel("mean positive cosine")
    for axis, there in ((first, bool(ends)), (second, any(ratios.values()))):
        if not there:
            _empty(axis)
    handles, labels = third.get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    if shown:
        third.legend(list(shown.values()), list(shown), frameon=False, fontsize=8, labelcolor=INK, loc="best")
    return figure


def draw_angles(panels: Sequence[AnglePanel]) -> Figure:
    """Curves over steps in panels of two columns; an assumed range is shaded, an assumed value is a line."""
    figure = panel_figure(8.6, 2.5 * ((len(panels) + 1) // 2) + 0.6)
    axes = figure.subplots((len(panels) + 1) // 2, 2, sharex=True, squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        _quiet(axis)
        axis.axhspan(*panel.inside, color=LINE, alpha=0.75, linewidth=0, label="requested range", zorder=0)
        if panel.assumed is not None:
            axis.axhline(panel.assumed, color=SOFT, linewidth=1.2, linestyle=(0, (5, 3)), label="value assumed")
        for (name, points), (colour, marker, line) in zip(panel.curves.items(), LOOKS, strict=False):
            if points:
                axis.plot(*zip(*points, strict=True), line, color=colour, marker=marker, markersize=4, label=name)
        if not any(panel.curves.values()):
            _empty(axis)
        highest = max([panel.inside[1], *(value for points in panel.curves.values() for _, value in points)])
        axis.set_ylim(0, 1.08 * highest)
        axis.set_title(panel.title, size=10, color=INK, loc="left")
        axis.set_ylabel("radians")
    for axis in axes[-1]:
        axis.set_xlabel("step of training")
    legend_below(figure, list(axes.flat))
    return figure


def panel_figure(width: float, height: float) -> Figure:
    """An empty figure whose panels leave room for each other's text."""
    figure = new_figure(width, height)
    figure.set_layout_engine("constrained")
    return figure


def _quiet(*axes: Axes) -> None:
    for axis in axes:
        frame(axis)
        axis.xaxis.label.set(size=9, color=INK)
        axis.yaxis.label.set(size=9, color=INK)


def _empty(axis: Axes) -> None:
    axis.text(0.5, 0.5, NOTHING, transform=axis.transAxes, ha="center", va="center", size=9, color=SOFT)


def legend_below(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend for all panels, below them."""
    shown: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    if shown:
        look: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "columnspacing": 1.4}
        figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=len(shown), **look)
