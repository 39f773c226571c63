"""Anatomies drawn: one or several losses side by side, and maps over the angles of positive and negatives."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hypersphere.anatomy import Anatomy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

INK, SOFT, LINE = "#22303c", "#6b7885", "#dde3e8"
ALIGNMENT, UNIFORMITY, NEUTRAL = "#1f6fb2", "#c8501e", "#4a5763"
MAP = "cividis"  # its lightness rises evenly, so it reads in grey
_MOST_POINTS = 4000


@dataclass(frozen=True)
class HeatMap:
    """One map: rows the positive's angle, columns the negatives'.

    edge: the line along which this field is zero (a jagged mask will do: it is drawn where it changes sign);
    shaded: cells crossed out.
    """

    title: str
    values: NDArray[Any]  # (rows, columns)
    edge: NDArray[Any] | None = None
    shaded: NDArray[np.bool_] | None = None
    note: str = ""


def heat_maps(
    title: str,
    maps: Sequence[HeatMap],
    positive: NDArray[Any],
    negative: NDArray[Any],
    label: str,
    names: tuple[str, str] = ("θ", "θ"),
    unit: str = "π",
    limits: tuple[float, float] = (0.0, 1.0),
    columns: int = 4,
    note: str = "",
) -> Figure:
    """Maps of (θ_neg, θ_pos) on one colour scale; angles given in radians, written in multiples of π or in degrees."""
    figure = new_figure(2.35 * min(columns, len(maps)) + 1.35, 2.75 * math.ceil(len(maps) / columns) + 1.05)
    width, height = figure.get_size_inches()
    heading(figure, title, note)
    lines, across = math.ceil(len(maps) / columns), min(columns, len(maps))
    grid = figure.add_gridspec(
        lines, across, left=0.72 / width, right=1 - 0.95 / width, bottom=0.55 / height, top=1 - 1.0 / height,
        hspace=0.26, wspace=0.14,
    )  # fmt: skip
    axes = [figure.add_subplot(grid[k // across, k % across]) for k in range(len(maps))]
    shown: Any = None
    for place, (axis, each) in enumerate(zip(axes, maps, strict=True)):
        shown = _map(axis, each, positive, negative, limits)
        angle_axis(axis.xaxis, (negative[0], negative[-1]), unit)
        angle_axis(axis.yaxis, (positive[0], positive[-1]), unit)
        left, bottom = place % across == 0, place + across >= len(maps)
        axis.tick_params(labelleft=left, labelbottom=bottom)
        degrees = "" if unit == "π" else " (degrees)"
        if bottom:
            axis.set_xlabel(f"{names[1]} of the negatives{degrees}", size=8.5, color=INK)
        if left:
            axis.set_ylabel(f"{names[0]} of the positive{degrees}", size=8.5, color=INK)
    first, last = axes[0].get_position(), axes[-1].get_position()
    bar = figure.colorbar(
        shown, cax=figure.add_axes((1 - 0.8 / width, last.y0, 0.12 / width, first.y1 - last.y0)), extend="neither"
    )
    bar.set_label(label, size=8.5, color=INK)
    bar.ax.tick_params(labelsize=8, colors=SOFT, length=2)
    bar.outline.set_visible(False)
    return figure


def _map(axis: Axes, each: HeatMap, positive: NDArray[Any], negative: NDArray[Any], limits: tuple[float, float]) -> Any:
    axis.set_title(each.title, size=9.5, color=INK, pad=4, loc="left")
    shown = axis.pcolormesh(
        negative, positive, each.values, cmap=MAP, vmin=limits[0], vmax=limits[1], shading="nearest", rasterized=True
    )
    if each.shaded is not None:
        cover = np.where(each.shaded, 1.0, np.nan)
        axis.pcolormesh(
            negative, positive, cover, cmap="Greys", vmin=0, vmax=3.2, shading="nearest", rasterized=True
        )  # fmt: skip
        _hatch(axis, each.shaded, positive, negative)
    if each.edge is not None and each.edge.min() < 0 < each.edge.max():
        axis.contour(negative, positive, each.edge, levels=[0], colors="white", linewidths=2.6)
        axis.contour(negative, positive, each.edge, levels=[0], colors="#101418", linewidths=1.1)
    if each.note:
        axis.text(
            0.97, 0.05, each.note, transform=axis.transAxes, ha="right", va="bottom", size=7.5, color=INK,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.6},
        )  # fmt: skip
    axis.tick_params(length=2, labelsize=8, colors=SOFT)
    for spine in axis.spines.values():
        spine.set_visible(False)
    return shown


def _hatch(axis: Axes, shaded: NDArray[np.bool_], positive: NDArray[Any], negative: NDArray[Any]) -> None:
    if shaded.any() and not shaded.all():
        field = shaded.astype(float)
        drawn = axis.contourf(negative, positive, field, levels=[0.5, 1.5], colors="none", hatches=["////"])
        drawn.set_edgecolor("#8a949e")
        drawn.set_linewidth(0)


def angle_axis(axis: Any, ends: tuple[float, float], unit: str = "π") -> None:
    """Ticks of an axis that is in radians, written in multiples of π or in degrees."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    step = math.pi / 4 if ends[1] - ends[0] > 0.6 * math.pi else math.pi / 8
    first = math.ceil(ends[0] / step - 1e-9)
    ticks = [k * step for k in range(first, math.floor(ends[1] / step + 1e-9) + 1)]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _multiple(value) if unit == "π" else _degrees(value)))


def _multiple(radians: float) -> str:
    eighths = round(radians / (math.pi / 8))
    if eighths == 0:
        return "0"
    divisor = math.gcd(eighths, 8)
    over, under = eighths // divisor, 8 // divisor
    return f"{'' if over == 1 else over}π" + (f"/{under}" if under > 1 else "")


def _degrees(radians: float) -> str:
    return f"{math.degrees(radians):g}°"


def plot(anatomy: Anatomy | Sequence[Anatomy], step: float = 0.1) -> Figure:
    """One column for each loss: dissipation of the anchors, weight against similarity, ratio within the interval of
    Lemma 1 for the step λ, lengths of the two parts of the gradient."""
    several = [anatomy] if isinstance(anatomy, Anatomy) else list(anatomy)
    alone = len(several) == 1  # then in a square, not in a column
    figure = new_figure(7.8, 6.4) if alone else new_figure(3.1 * len(several) + 0.9, 10.0)
    width, height = figure.get_size_inches()
    size, dim = several[0].anchors.shape
    heading(figure, "What the loss does to its anchors", f"{size} anchors, {dim} dimensions")
    grid = figure.add_gridspec(
        2 if alone else 4, 2 if alone else len(several),
        left=0.72 / width, right=1 - 0.2 / width, bottom=0.5 / height, top=1 - 1.15 / height,
        hspace=0.45, wspace=0.3 if alone else 0.16,
    )  # fmt: skip
    rows: list[list[Axes]] = [[], [], [], []]
    for column, each in enumerate(several):
        axes = [figure.add_subplot(grid[row // 2, row % 2] if alone else grid[row, column]) for row in range(4)]
        _dissipation(axes[0], each)
        _weight(axes[1], each)
        _ratio(axes[2], each, step)
        _parts(axes[3], each)
        _name(axes[0], each.name)
        for row, axis in enumerate(axes):
            frame(axis)
            rows[row].append(axis)
            if column:
                axis.set_ylabel("")
    for row in (0, 1, 2):
        _share_range(rows[row], "y")
    _share_range(rows[1], "x")
    for drawn in rows[:3]:
        for axis in drawn[1:]:
            axis.tick_params(labelleft=False)
    return figure


def _dissipation(axis: Axes, anatomy: Anatomy) -> None:
    known = anatomy.dissipation[anatomy.dissipation.isfinite()].sort(descending=True).values.numpy()
    place = (np.arange(len(known)) + 0.5) / max(len(known), 1)
    axis.fill_between(place, known, color=ALIGNMENT, alpha=0.18, linewidth=0, step="mid")
    axis.step(place, known, where="mid", color=ALIGNMENT, linewidth=1.6)
    mean = f"mean {known.mean():.2f}" if len(known) else "not measured"
    _corner(axis, mean)
    axis.set(xlim=(0, 1), ylim=(-0.03, max(1.06, float(known.max(initial=0)) * 1.05)))
    axis.set_xlabel("anchors, most moved first (share)", size=8.5)
    axis.set_ylabel("dissipation GD\n(1 moves, 0 stopped)", size=8.5)


def _weight(axis: Axes, anatomy: Anatomy) -> None:
    cosines = anatomy.anchors @ anatomy.negatives.T
    share = anatomy.share
    used = anatomy._counts() & (anatomy.weight != 0).any(dim=0) & anatomy.moving.unsqueeze(1)
    x, y = cosines[used].numpy(), share[used].numpy()
    if not len(x):
        _corner(axis, "no negative has any weight")
    kept = np.random.default_rng(0).permutation(len(x))[:_MOST_POINTS]
    axis.scatter(x[kept], np.maximum(y[kept], 1e-6), s=4, color=UNIFORMITY, alpha=0.25, linewidth=0, rasterized=True)
    axis.set_yscale("log")
    axis.set_ylim(5e-7, 12)
    axis.minorticks_off()
    if len(x):
        alone = 1 / max(1.0, used.sum(dim=1).double().max().item())
        axis.axhline(alone, color=SOFT, linewidth=0.9, linestyle=":")
        axis.text(0.01, alone * 1.25, "equal shares", transform=axis.get_yaxis_transform(), size=7, color=SOFT)
        moved = anatomy.effective_negatives[anatomy.moving]
        _corner(axis, f"{moved.mean().item():.1f} effective negatives")
    axis.set_xlabel("similarity of negative and anchor", size=8.5)
    axis.set_ylabel("share of the weight\n(below 1e-6: drawn there)", size=8.5)


def _ratio(axis: Axes, anatomy: Anatomy, step: float) -> None:
    low, high = anatomy.lemma1_interval(step)
    ratio = torch.where(anatomy.moving, anatomy.ratio, math.nan)
    known = ratio.isfinite()
    order = ratio[known].argsort()
    value, below, above = (each[known][order].numpy() for each in (ratio, low, high))
    place = (np.arange(len(value)) + 0.5) / max(len(value), 1)
    axis.fill_between(place, below, above, step="mid", color="#e6eef5", linewidth=0)
    inside = (value > below) & (value < above)
    axis.scatter(place[inside], value[inside], s=7, color=ALIGNMENT, linewidth=0, zorder=3, label="closer")
    axis.scatter(place[~inside], value[~inside], s=13, color=UNIFORMITY, marker="x", linewidth=0.9, zorder=3)
    top = np.quantile(value, 0.98) if len(value) else 1.0
    axis.set_xlim(0, 1)
    axis.set_ylim(min(-0.1, float(value.min(initial=0))), max(2.2, 1.25 * float(top)))
    axis.axhline(1, color=SOFT, linewidth=0.9, linestyle=":")
    _corner(axis, f"{inside.mean():.0%} inside Lemma 1 (λ = {step:g})" if len(value) else "no anchor moves")
    axis.set_xlabel("anchors by their ratio (share); shaded: the interval", size=8.5)
    axis.set_ylabel("ratio R of pull to push\n(× : positive gets farther)", size=8.5)


def _parts(axis: Axes, anatomy: Anatomy) -> None:
    parts = {name: torch.linalg.vector_norm(part, dim=1) for name, part in anatomy.parts().items()}
    top = max([float(norm.max()) for norm in parts.values()] + [1e-12])
    edges = np.linspace(0, top * 1.0001, 31)
    looks: dict[str, dict[str, Any]] = {
        "alignment": {"color": ALIGNMENT, "alpha": 0.55},
        "uniformity": {"color": UNIFORMITY, "alpha": 0.55, "histtype": "step", "linewidth": 1.8},
    }
    for name, norm in parts.items():
        label = f"{name}, mean {norm.mean().item():.3g}"
        axis.hist(norm.numpy(), bins=list(edges), label=label, **looks[name])
    axis.legend(frameon=False, fontsize=7.5, loc="upper right", labelcolor=INK, handlelength=1.2)
    bottom, tall = axis.get_ylim()
    axis.set_ylim(bottom, tall * 1.25)
    axis.set_xlabel(f"length of the anchor's gradient (scope {anatomy.scope})", size=8.5)
    axis.set_ylabel("anchors", size=8.5)


def _corner(axis: Axes, words: str) -> None:
    axis.text(
        0.98, 0.95, words, transform=axis.transAxes, ha="right", va="top", size=8, color=INK, zorder=6,
        bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _name(axis: Axes, name: str) -> None:
    """Objective above, settings below it in small."""
    bare, _, settings = name.partition("(")
    settings = re.sub(r"\d+\.\d{4,}", lambda found: f"{float(found[0]):.4g}", settings.removesuffix(")"))
    short = settings if len(settings) <= 44 else f"{settings[:43]}…"
    axis.set_title(bare, size=10.5, weight="bold", color=INK, loc="left", pad=16)
    axis.text(0, 1.04, short, transform=axis.transAxes, size=7.5, color=SOFT, va="bottom")


def _share_range(axes: Sequence[Axes], which: str) -> None:
    ranges = [getattr(axis, f"get_{which}lim")() for axis in axes]
    for axis in axes:
        getattr(axis, f"set_{which}lim")(min(low for low, _ in ranges), max(high for _, high in ranges))


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def heading(figure: Figure, title: str, note: str = "") -> None:
    width, height = figure.get_size_inches()
    figure.text(0.2 / width, 1 - 0.16 / height, title, size=13, weight="bold", color=INK, va="top")
    figure.text(0.2 / width, 1 - 0.45 / height, note, size=8.5, color=SOFT, va="top")


def frame(axis: Axes) -> None:
    """A quiet frame: grid behind, no box."""
    axis.grid(color=LINE, linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(LINE)
    axis.tick_params(length=0, labelsize=8, colors=SOFT)
