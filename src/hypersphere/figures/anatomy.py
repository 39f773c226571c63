"""Figures of anatomies, one or several losses side by side, and the style that all figures share."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hypersphere.anatomy import Anatomy
from hypersphere.anatomy.anatomy import UNEXPLAINED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, LINE = "#22303c", "#6b7885", "#dde3e8"
ALIGNMENT, UNIFORMITY, NEUTRAL = "#1f6fb2", "#c8501e", "#4a5763"
_MOST_POINTS = 4000


def plot(
    anatomy: Anatomy | Sequence[Anatomy],
    step: float = 0.1,
    negative: str = "hardest",
    *,
    source: str = "",
    names: Sequence[str] = (),
) -> Figure:
    """One column for each loss: dissipation of the anchors, weight against similarity, ratio within the interval of
    Lemma 1 for the step λ against the hardest negative or their mean, the lower ends of those intervals, lengths of the
    two parts of the gradient. ``source``: describes the anchors; ``names``: titles instead of the losses' own names."""
    several = [anatomy] if isinstance(anatomy, Anatomy) else list(anatomy)
    alone = len(several) == 1  # one loss is drawn in two lines, not in a column
    figure = new_figure(10.6, 6.5) if alone else new_figure(3.1 * len(several) + 0.9, 12.2)
    width, height = figure.get_size_inches()
    size, dim = several[0].anchors.shape
    scope = ", ".join(dict.fromkeys(each.scope for each in several))
    wide = max(60, int(13 * width))
    about = textwrap.fill(source or f"{size} anchors, {dim} dimensions", wide, max_lines=2, placeholder=" …")
    heading(figure, "What the loss does to its anchors", f"{about}\nscope {scope}; terms of Li et al. 2024")
    grid = figure.add_gridspec(
        2 if alone else len(PANELS), 3 if alone else len(several),
        left=0.72 / width, right=1 - 0.2 / width, bottom=0.5 / height,
        top=1 - (1.5 + 0.14 * about.count("\n")) / height, hspace=0.42, wspace=0.34 if alone else 0.2,
    )  # fmt: skip
    rows: list[list[Axes]] = [[] for _ in PANELS]
    for column, each in enumerate(several):
        spots = [grid[row // 3, row % 3] if alone else grid[row, column] for row in range(len(PANELS))]
        axes = [figure.add_subplot(spot) for spot in spots]
        for row, (axis, draw) in enumerate(zip(axes, PANELS, strict=True)):
            draw(axis, each, step, negative)
            frame(axis)
            rows[row].append(axis)
            if column:
                axis.set_ylabel("")
        _name(axes[0], names[column] if names else each.name)
    if alone:
        _words(figure.add_subplot(grid[1, 2]), several[0].verdict(step, negative))
    for drawn in rows:
        _share_range(drawn, "y")
    for row in (1, 3):
        _share_range(rows[row], "x")
    for drawn in rows:
        for axis in drawn[1:]:
            axis.tick_params(labelleft=False)
    return figure


def _words(axis: Axes, verdict: str) -> None:
    axis.axis("off")
    axis.text(
        0, 1, textwrap.fill(verdict, 40), transform=axis.transAxes, va="top", size=8.5, color=INK, linespacing=1.4
    )


def _dissipation(axis: Axes, anatomy: Anatomy, step: float, negative: str) -> None:
    known = anatomy.dissipation[anatomy.dissipation.isfinite()].sort(descending=True).values.numpy()
    place = (np.arange(len(known)) + 0.5) / max(len(known), 1)
    axis.fill_between(place, known, color=ALIGNMENT, alpha=0.18, linewidth=0, step="mid")
    axis.step(place, known, where="mid", color=ALIGNMENT, linewidth=1.6)
    mean = f"mean {known.mean():.2g}" if len(known) else "not measured"
    _corner(axis, mean)
    axis.set(xlim=(0, 1), ylim=(-0.03, max(1.06, float(known.max(initial=0)) * 1.05)))
    axis.set_xlabel("anchors, most moved first (share)", size=8.5)
    axis.set_ylabel("gradient kept, GD\n(1: all, 0: none)", size=8.5)


def _weight(axis: Axes, anatomy: Anatomy, step: float, negative: str) -> None:
    cosines = anatomy.anchors @ anatomy.negatives.T
    share = anatomy.share
    used = anatomy.compared & anatomy.moving.unsqueeze(1)
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
        _corner(axis, f"{anatomy.numbers()['effective negatives']:.1f} effective negatives")
    axis.set_xlabel("similarity of negative and anchor", size=8.5)
    axis.set_ylabel("share of the weight\n(below 1e-6: drawn there)", size=8.5)


def _ratio(axis: Axes, anatomy: Anatomy, step: float, negative: str) -> None:
    low, high = anatomy.lemma1_interval(step, negative)
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
    nothing = "no negative has any weight" if anatomy.moving.any() else "no anchor moves"
    _corner(axis, f"{inside.mean():.0%} inside Lemma 1 (λ = {step:g})" if len(value) else nothing)
    axis.set_xlabel("anchors by ratio (share); shaded: interval", size=8.5)
    axis.set_ylabel("ratio R of pull to push\n(× : positive gets farther)", size=8.5)


def _parts(axis: Axes, anatomy: Anatomy, step: float, negative: str) -> None:
    parts = {name: torch.linalg.vector_norm(part, dim=1) for name, part in anatomy.parts().items()}
    top = max([float(norm.max()) for norm in parts.values()] + [1e-12])
    edges = np.linspace(0, top * 1.0001, 31)
    numbers = anatomy.numbers()
    looks: dict[str, dict[str, Any]] = {
        "alignment": {"color": ALIGNMENT, "alpha": 0.55, "fill": True},
        "uniformity": {"color": UNIFORMITY, "alpha": 0.55, "linewidth": 1.8},
    }
    for name, norm in parts.items():
        label = f"{name}, mean {numbers[f'length of the {name} part']:.3g}"
        axis.stairs(np.histogram(norm.numpy(), edges)[0], edges, label=label, **looks[name])
    rest = numbers["not explained by similarities"]
    if rest > UNEXPLAINED:
        axis.plot([], [], " ", label=f"neither: {rest:.1%} of the gradient")
    axis.legend(frameon=False, fontsize=7.5, loc="upper right", labelcolor=INK, handlelength=1.2)
    bottom, tall = axis.get_ylim()
    axis.set_ylim(bottom, tall * 1.35)
    axis.set_xlabel(f"length of either part (scope {anatomy.scope})", size=8.5)
    axis.set_ylabel("anchors", size=8.5)
    axis.locator_params(axis="x", nbins=5)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")


def _lower_ends(axis: Axes, anatomy: Anatomy, step: float, negative: str) -> None:
    """Distribution of the smallest ratios that help, and the anchors' own ratios."""
    low, _ = anatomy.lemma1_interval(step, negative)
    chosen = anatomy.moving & anatomy.ratio.isfinite() & low.isfinite()
    ends, ratios = low[chosen].numpy(), anatomy.ratio[chosen].numpy()
    if len(ends):
        edges = np.linspace(min(-1.0, float(np.quantile(ends, 0.01))), max(2.0, float(np.quantile(ends, 0.99))), 41)
        counts, _ = np.histogram(np.clip(ends, edges[0], edges[-1]), edges)
        axis.stairs(counts, edges, fill=True, color=UNIFORMITY, alpha=0.45)
        middle = float(np.median(ratios))
        axis.axvline(middle, color=ALIGNMENT, linewidth=1.4)
        _corner(axis, f"median {np.median(ends):.2g}; line: ratio {middle:.2g}")
    else:
        _corner(axis, "no ratio to compare with")
    axis.set_xlabel(f"lower end of Lemma 1's interval (λ = {step:g})", size=8.5)
    axis.set_ylabel("anchors", size=8.5)
    axis.margins(y=0.25)


PANELS = (_dissipation, _weight, _ratio, _lower_ends, _parts)


def _corner(axis: Axes, words: str) -> None:
    axis.text(
        0.98, 0.95, words, transform=axis.transAxes, ha="right", va="top", size=8, color=INK, zorder=6,
        bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _name(axis: Axes, name: str) -> None:
    """Objective above, settings below it in small type."""
    bare, _, settings = name.partition("(")
    settings = re.sub(r"\d+\.\d{4,}", lambda match: f"{float(match[0]):.4g}", settings.removesuffix(")"))
    lines = textwrap.wrap(settings, 44, max_lines=2, placeholder=" …")
    axis.set_title(bare, size=10.5, weight="bold", color=INK, loc="left", pad=27)
    axis.annotate(
        "\n".join(lines), (0, 1), xycoords="axes fraction", xytext=(0, 24), textcoords="offset points", size=7.5,
        color=SOFT, va="top",
    )  # fmt: skip


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
