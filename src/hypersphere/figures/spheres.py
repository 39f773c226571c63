"""Point sets on the sphere in R³, side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

# Seen from a little above and to the side, so that no axis points at the reader.
_TURN, _TILT = np.radians(28), np.radians(20)
_INK, _SOFT, _LINE = "#22303c", "#6b7885", "#b9c4ce"
_TONES = {"known": "#2f7d4f", "good": "#1f6fb2", "short": "#c8501e", "start": _SOFT}


@dataclass(frozen=True)
class Panel:
    """One sphere. ``tone`` is "known", "good", "short" or "start"; ``shades`` colours the points."""

    title: str
    points: NDArray[np.float64]  # (N, 3) unit rows
    caption: str
    note: str = ""
    tone: str = "good"
    shades: NDArray[np.float64] | None = None  # (N,)


@dataclass(frozen=True)
class Strip:
    """A row of spheres under one heading; ``scale`` names and bounds the numbers that colour the points."""

    heading: str
    panels: Sequence[Panel]
    scale: tuple[str, float] | None = None


def draw_spheres(title: str, strips: Sequence[Strip], dpi: int = 110) -> bytes:
    """A PNG with one strip of spheres below the other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = max(len(strip.panels) for strip in strips)
    figure = Figure(figsize=(1.8 * columns + 0.9, 2.95 * len(strips) + 1.0), facecolor="white")
    figure.text(0.012, 1 - 0.22 / figure.get_figheight(), title, size=15, weight="bold", color=_INK, va="top")
    grid = figure.add_gridspec(
        len(strips),
        columns,
        left=0.01,
        right=0.95,
        bottom=0.055,
        top=1 - 1.35 / figure.get_figheight(),
        hspace=0.5,
        wspace=0.04,
    )
    for line, strip in enumerate(strips):
        axes = [figure.add_subplot(grid[line, place]) for place in range(len(strip.panels))]
        shown = None
        for axis, panel in zip(axes, strip.panels, strict=True):
            shown = _sphere(axis, panel, strip.scale) or shown
        corner = axes[0].get_position()
        above = corner.y1 + 0.42 / figure.get_figheight()
        figure.text(0.012, above, strip.heading, size=11.5, color=_INK, va="bottom")
        if shown is not None and strip.scale is not None:
            place = axes[-1].get_position()
            bar = figure.colorbar(shown, cax=figure.add_axes((0.958, place.y0, 0.006, place.height)))
            bar.set_label(strip.scale[0], size=8.5, color=_SOFT)
            bar.ax.tick_params(labelsize=8, colors=_SOFT, length=2)
            bar.outline.set_visible(False)
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def _sphere(axis: Axes, panel: Panel, scale: tuple[str, float] | None) -> Any:
    colour = _TONES[panel.tone]
    axis.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
    axis.set_axis_off()
    _globe(axis)
    seen = _view(panel.points)
    if panel.shades is None:
        _polyhedron(axis, panel.points, seen, colour)
        shown = None
    else:
        shown = _cloud(axis, seen, panel.shades, scale[1] if scale else float(panel.shades.max()))
    axis.set_title(panel.title, size=10.5, color=_INK, pad=5)
    below: dict[str, Any] = {"ha": "center", "va": "top", "transform": axis.transAxes}
    axis.text(0.5, -0.01, panel.caption, size=11, weight="bold", color=colour, **below)
    axis.text(0.5, -0.125, panel.note, size=8.5, color=_SOFT, **below)
    return shown


def _view(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, 3): right, up, towards the reader."""
    turn = np.array([[np.cos(_TURN), np.sin(_TURN), 0], [-np.sin(_TURN), np.cos(_TURN), 0], [0, 0, 1]])
    x, y, z = (points @ turn).T
    return np.stack([x, z * np.cos(_TILT) + y * np.sin(_TILT), z * np.sin(_TILT) - y * np.cos(_TILT)], axis=1)


def _globe(axis: Axes) -> None:
    """A softly lit ball with its equator and two meridians."""
    from matplotlib.patches import Circle

    side = np.linspace(-1, 1, 160)
    x, y = np.meshgrid(side, side)
    depth = np.sqrt(np.clip(1 - x**2 - y**2, 0, None))
    light = 0.90 + 0.10 * np.clip(-0.45 * x + 0.55 * y + 0.70 * depth, 0, 1)
    edge = Circle((0, 0), 1, facecolor="none", edgecolor=_LINE, linewidth=0.9, zorder=1)
    axis.add_patch(edge)
    ball = axis.imshow(
        light, extent=(-1, 1, -1, 1), origin="lower", cmap="gray", vmin=0, vmax=1, zorder=0, interpolation="bilinear"
    )
    ball.set_clip_path(edge)
    around = np.linspace(0, 2 * np.pi, 181)
    zero = np.zeros_like(around)
    for circle in (
        np.stack([np.cos(around), np.sin(around), zero], axis=1),
        np.stack([np.cos(around), zero, np.sin(around)], axis=1),
        np.stack([zero, np.cos(around), np.sin(around)], axis=1),
    ):
        line = _view(circle)
        for front, alpha in ((True, 0.75), (False, 0.3)):
            part = np.where(((line[:, 2] >= 0) == front)[:, None], line[:, :2], np.nan)
            axis.plot(part[:, 0], part[:, 1], color=_LINE, linewidth=0.6, alpha=alpha, zorder=1)


def _polyhedron(axis: Axes, points: NDArray[np.float64], seen: NDArray[np.float64], colour: str) -> None:
    """Few points, and the edges of the body they span."""
    for i, j in _edges(points):
        near = (seen[i, 2] + seen[j, 2]) / 2 > -0.05
        style: dict[str, Any] = {"linewidth": 1.5, "alpha": 0.9} if near else {"linewidth": 0.9, "alpha": 0.4}
        axis.plot(*seen[[i, j], :2].T, color=colour, zorder=3 if near else 2, solid_capstyle="round", **style)
    for x, y, depth in seen[np.argsort(seen[:, 2])]:
        size, alpha = 46 + 22 * depth, 1.0 if depth >= 0 else 0.55
        axis.scatter(x, y, s=size, color=colour, alpha=alpha, edgecolor="white", linewidth=0.8, zorder=4 + depth)


def _edges(points: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Edges of the convex hull of a few points, by trying every triangle."""
    edges: set[tuple[int, int]] = set()
    for triangle in combinations(range(len(points)), 3):
        a, b, c = points[list(triangle)]
        heights = (points - a) @ np.cross(b - a, c - a)
        if heights.min() > -1e-9 or heights.max() < 1e-9:
            edges.update(combinations(triangle, 2))
    return sorted(edges)


def _cloud(axis: Axes, seen: NDArray[np.float64], shades: NDArray[np.float64], top: float) -> Any:
    """Many points: those in front coloured by ``shades``, those behind as faint dots."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    front = seen[:, 2] >= 0
    x, y = seen[:, 0], seen[:, 1]
    axis.scatter(x[~front], y[~front], s=5, color="#9aa7b3", alpha=0.45, linewidth=0, zorder=2)
    dark = ListedColormap(colormaps["viridis"](np.linspace(0, 0.88, 256)))  # its yellow end is faint on a light ball
    colours: dict[str, Any] = {"c": shades[front], "cmap": dark, "vmin": 0, "vmax": top}
    return axis.scatter(x[front], y[front], s=24, linewidth=0.3, edgecolor="white", zorder=4, **colours)
