"""Losses before and after a modification: stages, bars, changes by set, and the trials of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import INK, SOFT, frame
from hypersphere.figures.conjectures import legend_below, panel_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE, PALE, PUBLISHED = "#0072b2", "#a9d3ee", "#8a5f00"
MOST_TRIALS = 8  # drawn trials of a search, the best first


@dataclass(frozen=True)
class Gains:
    """Points above the original by stage, as published and of every seed, and the score of the original."""

    title: str
    published: Sequence[tuple[str, float]]
    here: Sequence[tuple[str, Sequence[float]]]
    published_start: float
    start: float | None


@dataclass(frozen=True)
class Bar:
    """A loss before and after: means, and the values of every seed."""

    label: str
    before: float | None
    after: float | None
    before_seeds: Sequence[float]
    after_seeds: Sequence[float]


@dataclass(frozen=True)
class Changes:
    """Lines of a panel: set, published change, change here with both ends of its interval."""

    title: str
    lines: Sequence[tuple[str, float, float | None, float | None, float | None]]


@dataclass(frozen=True)
class Trials:
    """A search, best first: words, score, whether it is the published setting; test scores with fresh seeds."""

    title: str
    lines: Sequence[tuple[str, float, bool]]
    fresh: Sequence[float]


def draw_gains(panels: Sequence[Gains]) -> Figure:
    """Points above the original, stage by stage: published beside every seed and their mean."""
    figure = panel_figure(3.0 * len(panels) + 0.5, 3.7)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        frame(axis)
        stages = [stage for stage, _ in panel.published]
        axis.plot([value for _, value in panel.published], "--", color=PUBLISHED, marker="s", markerfacecolor="white",
                  markersize=6, linewidth=1.3, label="published")  # fmt: skip
        known = [(stages.index(stage), list(values)) for stage, values in panel.here if values]
        for place, values in known:
            axis.plot([place] * len(values), values, "o", color=HERE, alpha=0.4, markersize=3.5, label="here, a seed")
        if known:
            means = [(place, fmean(values)) for place, values in known]
            axis.plot(*zip(*means, strict=True), "-", color=HERE, marker="o", markersize=5, label="here, mean")
        axis.axhline(0, color=SOFT, linewidth=0.8)
        axis.set_xticks(range(len(stages)), stages)
        axis.set_xlim(-0.35, len(stages) - 0.65)
        start = "not measured" if panel.start is None else f"{panel.start:.1f} here"
        axis.set_title(f"{panel.title}\noriginal: {panel.published_start:.1f} published, {start}", size=9, color=INK,
                       loc="left")  # fmt: skip
    axes[0].set_ylabel("points above the original", size=9, color=INK)
    legend_below(figure, axes)
    return figure


def draw_bars(
    published: Sequence[Bar], here: Sequence[Bar], reference: tuple[float | None, float | None], score: str
) -> Figure:
    """Two panels of paired bars from 0, published and measured; the reference is a line across each."""
    figure = panel_figure(10.0, 3.7)
    axes = figure.subplots(1, 2)
    words = ("published: average of the seven STS sets", f"here: {score}")
    for axis, bars, line, title in zip(axes, (published, here), reference, words, strict=True):
        frame(axis)
        axis.grid(visible=False, axis="x")
        for place, bar in enumerate(bars):
            _bar(axis, place - 0.2, bar.before, bar.before_seeds, "original", {"color": PALE, "hatch": "///"})
            _bar(axis, place + 0.2, bar.after, bar.after_seeds, "modified", {"color": HERE})
        if line is not None:
            axis.axhline(line, color=INK, linewidth=1.3, linestyle=(0, (5, 3)), label="InfoNCE")
            axis.text(len(bars) - 0.42, line, f"{line:.1f}", size=8, color=INK, va="center", ha="left")
        tops = [value for bar in bars for value in (bar.before, bar.after, line, *bar.before_seeds, *bar.after_seeds)
                if value is not None]  # fmt: skip
        axis.set_ylim(0, 1.08 * max(tops, default=1.0))
        axis.set_xlim(-0.55, len(bars) - 0.45)
        axis.set_xticks(range(len(bars)), [bar.label for bar in bars], color=INK)
        axis.set_title(title, size=9.5, color=INK, loc="left")
        if not tops:
            axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", size=9, color=SOFT)
    axes[0].set_ylabel("ρ × 100", size=9, color=INK)
    legend_below(figure, axes)
    return figure


def _bar(
    axis: Axes, place: float, height: float | None, seeds: Sequence[float], label: str, look: dict[str, Any]
) -> None:
    if height is None:
        return
    axis.bar(place, height, 0.36, edgecolor="#00324f", linewidth=0.7, label=label, **look)
    axis.plot([place] * len(seeds), seeds, "o", color=INK, markerfacecolor="white", markersize=3.2, markeredgewidth=0.8)
    # At the foot: at the top it may lie on the line of the reference.
    axis.annotate(f"{height:.1f}", (place, 0), textcoords="offset points", xytext=(0, 7), ha="center", size=8.5,
                  color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip


def draw_changes(panels: Sequence[Changes], axis_label: str) -> Figure:
    """A panel for each loss: change on every set, published hollow, measured filled with its interval."""
    count = max((len(panel.lines) for panel in panels), default=1)
    figure = panel_figure(3.0 * len(panels) + 0.6, 0.3 * count + 1.7)
    axes = figure.subplots(1, len(panels), sharey=True, sharex=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        frame(axis)
        axis.axvline(0, color=SOFT, linewidth=0.9)
        for place, (_, published, here, low, high) in enumerate(panel.lines):
            if here is not None and low is not None and high is not None and math.isfinite(low):
                axis.plot([low, high], [place + 0.14] * 2, color=HERE, linewidth=4, alpha=0.35, solid_capstyle="butt",
                          label="95 % interval")  # fmt: skip
            if here is not None:
                axis.plot(here, place + 0.14, "o", color=HERE, markersize=5, label="here", linestyle="none")
            axis.plot(published, place - 0.18, "s", color=PUBLISHED, markerfacecolor="white", markersize=5,
                      label="published", linestyle="none")  # fmt: skip
        names = [name for name, *_ in panel.lines]
        axis.set_yticks(range(len(names)), names, color=INK)
        axis.set_ylim(len(names) - 0.5, -0.5)
        if len(names) > 1:
            axis.axhline(len(names) - 1.5, color=SOFT, linewidth=0.8)
        axis.set_title(panel.title, size=9.5, color=INK, loc="left")
        axis.set_xlabel(axis_label, size=9, color=INK)
    legend_below(figure, axes)
    return figure


def draw_trials(panels: Sequence[Trials]) -> Figure:
    """A panel for each loss: its best trials with their settings in words, the published setting filled."""
    count = max([min(len(panel.lines), MOST_TRIALS) for panel in panels] + [1])
    figure = panel_figure(11.0, 2 * (0.27 * count + 1.0) + 0.5)
    axes = figure.subplots(math.ceil(len(panels) / 2), 2, squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        frame(axis)
        lines = panel.lines[:MOST_TRIALS]
        for place, (_, value, published) in enumerate(lines):
            look: dict[str, Any] = {"marker": "s", "color": PUBLISHED} if published else {"marker": "o", "color": HERE}
            axis.plot(value, place, markersize=7, linestyle="none", **look,
                      label="STS-B dev, published setting" if published else "STS-B dev, other settings")  # fmt: skip
        if panel.fresh and lines:
            axis.plot(panel.fresh, [0] * len(panel.fresh), "D", color=INK, markerfacecolor="white", markersize=4.5,
                      label="STS-B test of the winner, fresh seeds", linestyle="none")  # fmt: skip
        axis.set_yticks(range(len(lines)), [words for words, *_ in lines], color=INK, size=8)
        axis.set_ylim(max(len(lines), 1) - 0.5, -0.5)
        more = f", the best {MOST_TRIALS} of {len(panel.lines)} trials" if len(panel.lines) > MOST_TRIALS else ""
        axis.set_title(panel.title + more, size=9.5, color=INK, loc="left")
        if not lines:
            axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", size=9, color=SOFT)
    for axis in axes[-1]:
        axis.set_xlabel("ρ × 100", size=9, color=INK)
    legend_below(figure, list(axes.flat))
    return figure
