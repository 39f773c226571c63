"""Maps over the angles of positive and negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hypersphere.anatomy import AngleGrid, closed_form, form_settings, hardest_share, mean_dissipation
from hypersphere.anatomy.simulation import simulate_together
from hypersphere.figures.anatomy import INK, LINE, SOFT, heading, new_figure
from hypersphere.objectives import Objective

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

COLOURS = "cividis"  # its lightness rises evenly, so it reads in grey
FLAT = 0.03  # a map that changes by a smaller part of its scale shows nothing


@dataclass(frozen=True)
class Scale:
    """The quantity that a colour shows, and its limits."""

    label: str
    limits: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class HeatMap:
    """One map: rows the positive's angle, columns the negatives'.

    edge: the line along which this field is zero (a jagged mask will do: it is drawn where it changes sign);
    shaded: cells crossed out; scale: overrides the scale of the figure.
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
    """Maps of (θ_neg, θ_pos) on common colour scales; angles in radians, written in multiples of π or in degrees.

    Maps that share a scale have one bar at their right; where each column has its own scale, each has a bar below. A
    sentence replaces a map that is the same everywhere.
    """
    lines, across = math.ceil(len(maps) / columns), min(columns, len(maps))
    by_column = [list(dict.fromkeys(each.scale or scale for each in maps[k::across])) for k in range(across)]
    below = len(dict.fromkeys(each for column in by_column for each in column)) > 1
    if below and any(len(column) > 1 for column in by_column):
        raise ValueError("maps in one column share one scale")
    right, bottom = (0.2, 1.1) if below else (0.95, 0.55)  # inches, with the bars
    figure = new_figure(2.35 * across + 0.4 + right, (2.9 if below else 2.75) * lines + 0.5 + bottom)
    width, height = figure.get_size_inches()
    heading(figure, title, note)
    grid = figure.add_gridspec(
        lines, across, left=0.72 / width, right=1 - right / width, bottom=bottom / height,
        top=1 - (1.15 if below else 1.0) / height,
        hspace=0.36 if any("\n" in each.title for each in maps) else 0.26, wspace=0.14,
    )  # fmt: skip
    axes = [figure.add_subplot(grid[k // across, k % across]) for k in range(len(maps))]
    shown: dict[Scale, Any] = {}
    for place, (axis, each) in enumerate(zip(axes, maps, strict=True)):
        if (drawn := _map(axis, each, positive, negative, (each.scale or scale).limits)) is not None:
            shown[each.scale or scale] = drawn
        angle_axis(axis.xaxis, (negative[0], negative[-1]), unit)
        angle_axis(axis.yaxis, (positive[0], positive[-1]), unit)
        left, last = place % across == 0, place + across >= len(maps)
        axis.tick_params(labelleft=left, labelbottom=last)
        if last:
            axis.set_xlabel(f"{names[1]} of the negatives", size=8.5, color=INK)
        if left:
            axis.set_ylabel(f"{names[0]} of the positive", size=8.5, color=INK)
    low, high = axes[-1].get_position().y0, axes[0].get_position().y1
    for each_scale, mesh in shown.items():
        spot = (1 - (right - 0.15) / width, low, 0.12 / width, high - low)
        if below:
            box = axes[by_column.index([each_scale])].get_position()
            spot = (box.x0, 0.48 / height, box.width, 0.1 / height)
        of_scale = [each for each in maps if (each.scale or scale) == each_scale]
        bar = figure.colorbar(
            mesh, cax=figure.add_axes(spot), extend=_beyond(each_scale, of_scale),
            orientation="horizontal" if below else "vertical",
        )  # fmt: skip
        bar.set_label(each_scale.label, size=8.5, color=INK)
        bar.ax.tick_params(labelsize=8, colors=SOFT, length=2)
        bar.outline.set_visible(False)
    return figure


def _beyond(scale: Scale, maps: Sequence[HeatMap]) -> str:
    """The side of the scale's limits, or both, on which values lie."""
    seen = np.concatenate([each.values[~each.shaded if each.shaded is not None else ...].ravel() for each in maps])
    slack = 0.01 * (scale.limits[1] - scale.limits[0])
    below, above = (seen < scale.limits[0] - slack).any(), (seen > scale.limits[1] + slack).any()
    return "both" if below and above else "min" if below else "max" if above else "neither"


def _map(axis: Axes, each: HeatMap, positive: NDArray[Any], negative: NDArray[Any], limits: tuple[float, float]) -> Any:
    axis.set_title(each.title, size=9.5, color=INK, pad=4, loc="left")
    if sentence := _sentence(each, limits):
        axis.set(xlim=(negative[0], negative[-1]), ylim=(positive[0], positive[-1]))
        axis.text(
            0.5, 0.5, sentence, transform=axis.transAxes, ha="center", va="center", size=9, color=INK, wrap=True
        )  # fmt: skip
        axis.tick_params(length=2, labelsize=8, colors=SOFT)
        for spine in axis.spines.values():
            spine.set_color(LINE)
        return None
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


def _sentence(each: HeatMap, limits: tuple[float, float]) -> str:
    """A sentence for a map without visible change; "" for any other map."""
    seen = each.values[~each.shaded] if each.shaded is not None else each.values
    if not seen.size:
        return each.note or "not defined at any angle"
    low, high = float(seen.min()), float(seen.max())
    if high - low > FLAT * (limits[1] - limits[0]):
        return ""
    values = f"{high:.3g}" if math.isclose(low, high, rel_tol=1e-4) else f"{low:.2g} to {high:.2g}"
    return f"{values} {'at all angles' if seen.size == each.values.size else 'wherever it is defined'}"


def _hatch(axis: Axes, shaded: NDArray[np.bool_], positive: NDArray[Any], negative: NDArray[Any]) -> None:
    if shaded.any() and not shaded.all():
        field = shaded.astype(float)
        drawn = axis.contourf(negative, positive, field, levels=[0.5, 1.5], colors="none", hatches=["////"])
        drawn.set_edgecolor("#8a949e")
        drawn.set_linewidth(0)


def angle_axis(axis: Any, ends: tuple[float, float], unit: str = "π") -> None:
    """Ticks of an axis in radians, written in multiples of π or in degrees."""
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


def component_maps(objectives: Sequence[Objective], grid: AngleGrid, names: Sequence[str] = ()) -> Figure:
    """A row for each objective with a closed form: mean dissipation and share of the hardest negative over angles drawn
    around their means (Li et al. 2024), and the ratio at the means themselves."""
    positive, negative = grid.means()
    forms = [(objective.name, form_settings(objective)) for objective in objectives]
    rows = torch.stack(list(simulate_together(forms, grid, (mean_dissipation, hardest_share))), dim=2)
    gates, hardest = rows.transpose(0, 1).numpy()  # (forms, points, points) each
    kept, shares = Scale("gradient kept, mean GD"), Scale("share of the weight on the hardest")
    ratios = Scale("ratio R", (0.0, 2.5))
    maps: list[HeatMap] = []
    for place, (name, settings) in enumerate(forms):
        at_means = closed_form(name)(
            positive[:, None].expand(-1, grid.points),
            negative[None, :, None].expand(grid.points, -1, grid.negatives),
            **settings,
        )
        ratio = at_means.ratio.numpy()
        shown = names[place] if names else name
        maps.append(HeatMap(f"{shown}\ngradient kept", gates[place], gates[place] - 0.5, scale=kept))
        maps.append(HeatMap("the hardest's share", hardest[place], scale=shares))
        unknown = np.isnan(ratio)
        note = "a matrix of features,\nno number" if unknown.all() else ""
        maps.append(HeatMap("ratio", np.where(unknown, 0, ratio), shaded=unknown, note=note, scale=ratios))
    return heat_maps(
        "Dissipation, weight and ratio over the angles", maps, positive.numpy(), negative.numpy(),
        kept, ("mean angle μ", "mean angle μ"), columns=3,
        note=f"As in Li et al. 2024, Figure 2: angles drawn around μ (spread {grid.positive_spread:g} and "
        f"{grid.negative_spread:g}),\n{grid.negatives} negatives, scope anchor; line: GD = 1/2. Ratio: at the means.",
    )  # fmt: skip
