"""Trained sentence encoders: scores, tried settings, checkpoints on the sphere, and margins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import INK, SOFT, frame, new_figure
from hypersphere.figures.comparison import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Series = Sequence[tuple[int, Sequence[float]]]  # step, and the value of each run
Losses = Mapping[str, Mapping[str, Series]]  # quantity → training, dev → curve
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
SPLITS: dict[str, tuple[str, Any]] = {"training": ("a training batch", "-"), "dev": ("STS-B dev", (0, (4, 1.6)))}
WORDS = {"infonce": "InfoNCE, τ = 0.05", "alignment": "alignment", "uniformity": "uniformity"}
RED = COLOURS[1]


@dataclass(frozen=True)
class ScoreRow:
    """Scores of one objective over seeds, and the 95 % interval of their mean."""

    name: str
    values: Sequence[float]
    interval: tuple[float, float]


@dataclass(frozen=True)
class ChoicePanel:
    """A setting: (value, validation score, learning rate) of every trial, the paper's range and its best value."""

    title: str
    trials: Sequence[tuple[float, float, float]]
    grid: tuple[float, float]
    published: float | None


@dataclass(frozen=True)
class Spot:
    """A checkpoint on STS-B dev."""

    objective: str
    alignment: float
    uniformity: float
    score: float


@dataclass(frozen=True)
class MarginPoint:
    """A margin: gap and score of every run."""

    margin: float
    gaps: Sequence[float]
    scores: Sequence[float]


def draw_scores(similarity: Sequence[ScoreRow], transfer: Sequence[ScoreRow], what: str) -> Figure:
    """Every run as a dot, the mean with its 95 % interval: similarity on the left, transfer on the right."""
    names = list(dict.fromkeys(row.name for row in (*similarity, *transfer)))
    figure = _figure(9.6, 1.3 + 0.3 * max(3, len(names)))
    axes = figure.subplots(1, 2)
    for axis, rows, label in zip(
        axes, (similarity, transfer), (f"{what}, Spearman × 100", "transfer average, accuracy %"), strict=True
    ):
        for row in rows:
            place = len(names) - 1 - names.index(row.name)
            low, high = row.interval
            if math.isfinite(low):
                axis.plot([low, high], [place] * 2, color=COLOURS[0], linewidth=7, alpha=0.3, solid_capstyle="butt")
            axis.plot(row.values, [place] * len(row.values), "o", color=COLOURS[0], markersize=3.4, alpha=0.8)
            axis.plot([_mean(row.values)], [place], "|", color=INK, markersize=13, markeredgewidth=1.6)
        axis.set_yticks(range(len(names)), names[::-1])
        axis.set_ylim(-0.6, len(names) - 0.4)
        _name(axis, "", label)
        if not rows:
            _nothing(axis)
    return figure


def draw_choices(panels: Sequence[ChoicePanel], noise: float | None) -> Figure:
    """Score of every trial against its setting: the winner ringed, the paper's range shaded, its best value dashed."""
    from matplotlib.colors import LogNorm

    rates = [rate for panel in panels for *_, rate in panel.trials if rate > 0]
    norm = LogNorm(min(rates) / 1.001, max(rates) * 1.001) if rates else None
    rows = max(1, math.ceil(len(panels) / 3))
    figure = _figure(9.6, 0.9 + 2.1 * rows)
    axes = figure.subplots(rows, 3, squeeze=False)
    drawn = None
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.axvspan(*panel.grid, color="#eef2f5", zorder=0)
        if panel.published is not None:
            axis.axvline(panel.published, color=RED, linestyle="--", linewidth=1.3, zorder=1)
        if panel.trials:
            x, y, colours = zip(*panel.trials, strict=True)
            best = max(range(len(y)), key=lambda place: y[place])
            if noise is not None:
                axis.axhspan(y[best] - noise, y[best], color=COLOURS[0], alpha=0.14, linewidth=0, zorder=0.5)
            look: dict[str, Any] = {"cmap": "cividis", "norm": norm, "edgecolors": INK, "linewidths": 0.5, "zorder": 3}
            drawn = axis.scatter(x, y, c=colours, s=34, **look)
            axis.scatter([x[best]], [y[best]], s=120, facecolors="none", edgecolors=INK, linewidths=1.4, zorder=2.5)
        else:
            _nothing(axis)
        axis.margins(y=0.14)  # room for the ring
        _name(axis, panel.title, "")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("STS-B dev, ρ × 100", size=8.5, color=INK)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.7, aspect=35)
        bar.set_label("learning rate", size=8.5, color=INK)
        bar.ax.tick_params(which="both", labelsize=8, colors=SOFT)
    _explain(figure, noise)
    return figure


def _explain(figure: Figure, noise: float | None) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ring: dict[str, Any] = {"marker": "o", "color": "none", "markeredgecolor": INK, "markersize": 9}
    handles: list[Any] = [
        Line2D([], [], label="winner", **ring),
        Line2D([], [], color=RED, linestyle="--", linewidth=1.3, label="the paper's best"),
        Patch(color="#eef2f5", label="the paper's grid"),
    ]
    if noise is not None:
        handles.append(Patch(color=COLOURS[0], alpha=0.14, label="not told apart from the winner"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=INK)


def draw_checkpoints(spots: Sequence[Spot], losses: Mapping[str, Losses]) -> Figure:
    """Left: uniformity against alignment, coloured by score. Right: the losses of some objectives while training."""
    figure = _figure(13.0, 6.2)
    outer = figure.add_gridspec(1, 2, width_ratios=(1, 1.45))
    axis = figure.add_subplot(outer[0])
    norm = _range([spot.score for spot in spots])
    for place, name in enumerate(dict.fromkeys(spot.objective for spot in spots)):
        mine = [spot for spot in spots if spot.objective == name]
        x, y, c = zip(*((spot.uniformity, spot.alignment, spot.score) for spot in mine), strict=True)
        marker = MARKERS[place % len(MARKERS)]
        look: dict[str, Any] = {"cmap": "cividis", "norm": norm, "edgecolors": INK, "linewidths": 0.5}
        drawn = axis.scatter(x, y, c=c, marker=marker, s=38 if name != "untrained" else 90, zorder=3, **look)
        axis.plot([], [], marker, color=SOFT, markersize=6, label=name)
    if spots:
        bar = figure.colorbar(drawn, ax=axis, location="bottom", shrink=0.8, aspect=35)
        bar.set_label("STS-B dev, ρ × 100", size=8.5, color=INK)
        bar.ax.tick_params(labelsize=8, colors=SOFT)
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.04), ncols=4, frameon=False, fontsize=8, labelcolor=INK)
    else:
        _nothing(axis)
    _name(axis, "a: every checkpoint", "uniformity on STS-B dev (lower: more even)", "alignment (lower: closer)")
    _draw_losses(figure, outer[1], losses)
    return figure


def draw_margins(
    similarity: Sequence[MarginPoint],
    transfer: Sequence[MarginPoint],
    gaps: Mapping[str, Series],
    losses: Mapping[str, Losses],
    what: str,
) -> Figure:
    """Left: gap against similarity and transfer, and against the step. Right: the losses of some margins."""
    figure = _figure(13.0, 7.6)
    outer = figure.add_gridspec(1, 2, width_ratios=(1, 1.45))
    left = outer[0].subgridspec(3, 1, height_ratios=(1, 1, 1.15))
    above = figure.add_subplot(left[0])
    below = figure.add_subplot(left[1], sharex=above)
    for axis, points in ((above, similarity), (below, transfer)):
        _draw_points(axis, points)
    _name(above, "a: margins m of MPT", "", f"{what}, ρ × 100")
    if similarity:
        above.legend(loc="lower right", bbox_to_anchor=(1.01, 0.97), ncols=len(similarity), frameon=False, fontsize=8,
                     labelcolor=INK, columnspacing=0.9, handletextpad=0.1)  # fmt: skip
    _name(below, "", "gap on held-out rows", "transfer, %")
    axis = figure.add_subplot(left[2])
    for place, (name, curve) in enumerate(gaps.items()):
        if curve:
            _draw_curve(axis, curve, COLOURS[place], "-", name, MARKERS[place])
    if any(gaps.values()):
        axis.legend(frameon=False, fontsize=8, labelcolor=INK, ncols=2)
    else:
        _nothing(axis)
    _name(axis, "b: while training", "step", "gap on held-out rows")
    _draw_losses(figure, outer[1], losses)
    return figure


def _draw_points(axis: Axes, points: Sequence[MarginPoint]) -> None:
    """Mean and every run of each margin. Each margin has its own marker, and a line joins them in order."""
    if not points:
        _nothing(axis)
        return
    x, y = [_mean(each.gaps) for each in points], [_mean(each.scores) for each in points]
    axis.plot(x, y, "-", color=COLOURS[0], linewidth=1.2)
    for marker, each, gap, score in zip(MARKERS, points, x, y, strict=False):
        axis.plot(each.gaps, each.scores, marker, color=COLOURS[0], markersize=3, alpha=0.55)
        look: dict[str, Any] = {"color": COLOURS[0], "markersize": 7, "markeredgecolor": INK, "linestyle": "none"}
        axis.plot([gap], [score], marker=marker, label=f"{each.margin:g}", **look)
    axis.margins(x=0.06, y=0.12)


def _draw_losses(figure: Figure, place: Any, losses: Mapping[str, Losses]) -> None:
    """A row of panels for each run, a column for each quantity; a column shares its range."""
    if not losses:
        _nothing(figure.add_subplot(place))
        return
    axes = place.subgridspec(len(losses), len(WORDS)).subplots(sharex=True, sharey="col", squeeze=False)
    for row, (title, quantities) in enumerate(losses.items()):
        for column, (quantity, word) in enumerate(WORDS.items()):
            axis = axes[row, column]
            curves = quantities.get(quantity, {})
            for colour, (split, (_, line)) in zip(COLOURS, SPLITS.items(), strict=False):
                if curves.get(split):
                    _draw_curve(axis, curves[split], colour, line)
            if not any(curves.values()):
                _nothing(axis)
            title_here = f"{title}   {word}" if column == 0 else word
            _name(axis, title_here, "step" if row == len(losses) - 1 else "")
    handles = _handles()
    figure.legend(handles=handles, loc="outside lower right", ncols=2, frameon=False, fontsize=8.5, labelcolor=INK)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=colour, linestyle=line, label=label, linewidth=1.6)
        for colour, (label, line) in zip(COLOURS, SPLITS.values(), strict=False)
    ]


def _draw_curve(axis: Axes, curve: Series, colour: str, line: Any, label: str = "", marker: str = "o") -> None:
    """The mean over runs, in a band from the lowest to the highest."""
    steps = [step for step, _ in curve]
    axis.plot(steps, [_mean(values) for _, values in curve], linestyle=line, color=colour, linewidth=1.5,
              marker=marker, markersize=3.4, label=label or "_")  # fmt: skip
    if any(len(values) > 1 for _, values in curve):
        lowest, highest = [min(values) for _, values in curve], [max(values) for _, values in curve]
        axis.fill_between(steps, lowest, highest, color=colour, alpha=0.13, linewidth=0)


def _range(scores: Sequence[float]) -> Any:
    from matplotlib.colors import Normalize

    return Normalize(min(scores), max(scores)) if scores else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _nothing(axis: Axes) -> None:
    axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", va="center", size=9, color=SOFT)


def _name(axis: Axes, title: str, x: str, y: str = "") -> None:
    frame(axis)
    axis.set_title(title, size=9, color=INK, loc="left")
    axis.set_xlabel(x, size=8.5, color=INK)
    if y:
        axis.set_ylabel(y, size=8.5, color=INK)


def _figure(width: float, height: float) -> Figure:
    figure = new_figure(width, height)
    figure.set_layout_engine("constrained")
    return figure
