"""Maps over the angles of positive and negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hypersphere.anatomy import AngleGrid, closed_form, form_settings, hardest_share, mean_dissipation, simulate
from hypersphere.figures.anatomy import INK, SOFT, heading, new_figure
from hypersphere.objectives import Objective

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

COLOURS = "cividis"  # its lightness rises evenly, so it reads in grey


@dataclass(frozen=True)
class Scale:
    """What a colour means, and between which values."""

    label: str
    limits: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class HeatMap:
    """One map: rows the positive's angle, columns the negatives'.

    edge: the line along which this field is zero (a jagged mask will do: it is drawn where it changes sign);
    shaded: cells crossed out; scale: another than that of the figure.
    """

    title: str
    values: NDArray[Any]  # (rows, columns)
    edge: NDArray[Any] | None = None
    shaded: NDArray[np.bool_] | None = None
    note: str = ""
    scale: Scale | None = None


def heat_maps(
    title: str,
    maps: Sequence[HeatMap],
    positive: NDArray[Any],
    negative: NDArray[Any],
    scale: Scale,
    names: tuple[str, str] = ("angle θ", "angle θ"),
    unit: str = "π",
    columns: int = 4,
    note: str = "",
) -> Figure:
    """Maps of (θ_neg, θ_pos) on common colour scales; angles in radians, written in multiples of π or in degrees."""
    lines, across = math.ceil(len(maps) / columns), min(columns, len(maps))
    scales = list(dict.fromkeys(each.scale or scale for each in maps))
    right = 0.27 + 0.68 * len(scales)  # inches for the bars
    figure = new_figure(2.35 * across + 0.4 + right, 2.75 * lines + 1.05)
    width, height = figure.get_size_inches()
    heading(figure, title, note)
    grid = figure.add_gridspec(
        lines, across, left=0.72 / width, right=1 - right / width, bottom=0.55 / height, top=1 - 1.0 / height,
        hspace=0.26, wspace=0.14,
    )  # fmt: skip
    axes = [figure.add_subplot(grid[k // across, k % across]) for k in range(len(maps))]
    shown: dict[Scale, Any] = {}
    for place, (axis, each) in enumerate(zip(axes, maps, strict=True)):
        shown[each.scale or scale] = _map(axis, each, positive, negative, (each.scale or scale).limits)
        angle_axis(axis.xaxis, (negative[0], negative[-1]), unit)
        angle_axis(axis.yaxis, (positive[0], positive[-1]), unit)
        left, bottom = place % across == 0, place + across >= len(maps)
        axis.tick_params(labelleft=left, labelbottom=bottom)
        if bottom:
            axis.set_xlabel(f"{names[1]} of the negatives", size=8.5, color=INK)
        if left:
            axis.set_ylabel(f"{names[0]} of the positive", size=8.5, color=INK)
    low, high = axes[-1].get_position().y0, axes[0].get_position().y1
    for place, each_scale in enumerate(scales):
        spot = (1 - (right - 0.15 - 0.68 * place) / width, low, 0.12 / width, high - low)
        beyond = _beyond(each_scale, [each for each in maps if (each.scale or scale) == each_scale])
        bar = figure.colorbar(shown[each_scale], cax=figure.add_axes(spot), extend=beyond)
        bar.set_label(each_scale.label, size=8.5, color=INK)
        bar.ax.tick_params(labelsize=8, colors=SOFT, length=2)
        bar.outline.set_visible(False)
    return figure


def _beyond(scale: Scale, maps: Sequence[HeatMap]) -> str:
    """On which sides of its limits there are values."""
    seen = np.concatenate([each.values[~each.shaded if each.shaded is not None else ...].ravel() for each in maps])
    slack = 0.01 * (scale.limits[1] - scale.limits[0])
    below, above = (seen < scale.limits[0] - slack).any(), (seen > scale.limits[1] + slack).any()
    return "both" if below and above else "min" if below else "max" if above else "neither"


def _map(axis: Axes, each: HeatMap, positive: NDArray[Any], negative: NDArray[Any], limits: tuple[float, float]) -> Any:
    axis.set_title(each.title, size=9.5, color=INK, pad=4, loc="left")
    low, high = limits
    shown = axis.pcolormesh(
        negative, positive, each.values, cmap=COLOURS, vmin=low, vmax=high, shading="nearest", rasterized=True
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


def component_maps(objectives: Sequence[Objective], grid: AngleGrid) -> Figure:
    """A row for each objective with a closed form: mean dissipation and share of the hardest negative over angles drawn
    around their means (Li et al. 2024), and the ratio at the means themselves."""
    positive, negative = grid.means()
    maps: list[HeatMap] = []
    ratios = Scale("ratio R", (0.0, 2.5))
    for objective in objectives:
        name, settings = objective.name, form_settings(objective)
        gate = simulate(name, grid, mean_dissipation, **settings).numpy()
        hardest = simulate(name, grid, hardest_share, **settings).numpy()
        at_means = closed_form(name)(
            positive[:, None].expand(-1, grid.points),
            negative[None, :, None].expand(grid.points, -1, grid.negatives),
            **settings,
        )
        ratio = at_means.ratio.numpy()
        maps.append(HeatMap(f"{name}: mean GD", gate, gate - 0.5))
        maps.append(HeatMap(f"{name}: share of the hardest", hardest))
        unknown = np.isnan(ratio)
        note = "a matrix of features" if unknown.all() else ""
        maps.append(HeatMap(f"{name}: ratio", np.where(unknown, 0, ratio), shaded=unknown, note=note, scale=ratios))
    return heat_maps(
        "Dissipation, weight and ratio over the angles", maps, positive.numpy(), negative.numpy(),
        Scale("mean GD, or share of the weight"), ("mean angle μ", "mean angle μ"), columns=3,
        note=f"Angles drawn around μ (spread {grid.positive_spread:g} and {grid.negative_spread:g}), {grid.negatives} "
        "negatives; line: GD = 1/2. Ratio: at the means.",
    )  # fmt: skip
