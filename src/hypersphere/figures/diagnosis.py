"""Figures of a diagnosis: similarities, spectrum, dimensions, neighbours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hypersphere.diagnostics import Diagnosis
from hypersphere.diagnostics.uniform import UniformCosine
from hypersphere.figures.anatomy import ALIGNMENT, INK, NEUTRAL, SOFT, UNIFORMITY, frame, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VIEWS = ((ALIGNMENT, "-"), (UNIFORMITY, "--"))  # colour and line of the first and the second view
WIDTH, HEIGHT = 5.2, 3.7
LONGEST = 60  # characters of a title


def plots(diagnosis: Diagnosis, source: str = "") -> dict[str, Figure]:
    """Four figures by their subject, each with the name of its file, run or model."""
    figures = {}
    for name, title, draw in (
        ("similarities", "Cosines", _similarities),
        ("spectrum", "Spectrum", _spectrum),
        ("dimensions", "Variance by dimension", _dimensions),
        ("neighbours", "Neighbours", _neighbours),
    ):
        figure = new_figure(WIDTH, HEIGHT)
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)
        axis = figure.add_subplot()
        frame(axis)
        draw(axis, diagnosis)
        axis.legend(
            loc="lower left", bbox_to_anchor=(-0.02, 1.0), borderaxespad=0.2, frameon=False, fontsize=7.5,
            labelcolor=INK, handlelength=1.4,
        )  # fmt: skip
        of = f"{title}: {source}" if source else title
        of = of if len(of) <= LONGEST else f"{of[: LONGEST - 1]}…"
        figure.suptitle(of, x=0.02, ha="left", size=10, weight="bold", color=INK, parse_math=False)
        figures[name] = figure
    return figures


def _similarities(axis: Axes, diagnosis: Diagnosis) -> None:
    """Densities of the cosines: rows with each other, positives, and uniform rows for reference."""
    edges = np.linspace(-1, 1, len(diagnosis.views[0].histogram) + 1)
    highest, peaks = 0.0, [0.0]
    for view, (colour, line) in zip(diagnosis.views, VIEWS, strict=False):
        density = _density(view.histogram)
        highest = max(highest, float(density.max()))
        name = "two rows" if len(diagnosis.views) == 1 else f"two rows of {view.name}"
        axis.stairs(density, edges, color=colour, linestyle=line, linewidth=1.4, label=name)
    if diagnosis.pairs is not None:
        density = _density(diagnosis.pairs.positive_histogram)
        axis.stairs(density, edges, fill=True, color=NEUTRAL, alpha=0.35, label="positive pairs")
        peaks.append(float(density.max()))
    below = UniformCosine(diagnosis.dims).cdf(torch.from_numpy(edges))
    uniform = below.diff().numpy() / np.diff(edges)
    axis.stairs(uniform, edges, color=SOFT, linewidth=1.1, linestyle=":", label="uniform rows")
    axis.set_xlim(-1, 1)
    seen = max(highest, min(max(*peaks, float(uniform.max())), 2 * highest))  # a sharp peak may be cut, not the rest
    axis.set_ylim(0, 1.05 * seen)
    axis.set_xlabel("cosine", size=8.5, color=INK)
    axis.set_ylabel("density", size=8.5, color=INK)


def _spectrum(axis: Axes, diagnosis: Diagnosis) -> None:
    """Variance along each principal direction; a straight fall to the floor is a collapse."""
    lowest, possible = 1.0, min(diagnosis.rows - 1, diagnosis.dims)
    for view, (colour, line) in zip(diagnosis.views, VIEWS, strict=False):
        share = (view.eigenvalues / view.eigenvalues.sum().clamp_min(1e-300)).clamp_min(1e-12)[:possible]
        lowest = min(lowest, float(share.min()))
        label = f"{view.name}: centred effective rank {view.effective_rank_centred:.1f}, participation ratio "
        axis.plot(
            np.arange(1, len(share) + 1), share.numpy(), color=colour, linestyle=line, linewidth=1.5,
            marker="o" if len(share) < 40 else "", markersize=3, label=label + f"{view.participation_ratio:.1f}",
        )  # fmt: skip
    axis.axhline(1 / possible, color=SOFT, linewidth=1.1, linestyle=":", label="all dimensions alike")
    axis.set_yscale("log")
    axis.set_ylim(max(lowest / 3, 3e-13), 1)
    axis.minorticks_off()
    axis.set_xlabel("principal direction", size=8.5, color=INK)
    axis.set_ylabel("share of the variance", size=8.5, color=INK)


def _dimensions(axis: Axes, diagnosis: Diagnosis) -> None:
    """Variance of each dimension as it is stored, largest first."""
    for view, (colour, line) in zip(diagnosis.views, VIEWS, strict=False):
        ordered = view.variance.sort(descending=True).values
        dead = len(view.dead_dimensions)
        axis.stairs(
            ordered.numpy(), np.arange(len(ordered) + 1), color=colour, linestyle=line, linewidth=1.4, alpha=0.75,
            fill=len(diagnosis.views) == 1,
            label=f"{view.name}: total {view.total_variance:.3f}" + (f", {dead} dead" if dead else ""),
        )  # fmt: skip
    axis.axhline(1 / diagnosis.dims, color=SOFT, linewidth=1.1, linestyle=":", label="all dimensions alike")
    highest = max(float(view.variance.max()) for view in diagnosis.views)
    axis.set_ylim(0, 1.05 * max(highest, 1 / diagnosis.dims))
    axis.set_xlim(0, diagnosis.dims)
    axis.set_xlabel("dimensions by their variance", size=8.5, color=INK)
    axis.set_ylabel("variance of unit rows", size=8.5, color=INK)


def _neighbours(axis: Axes, diagnosis: Diagnosis) -> None:
    """Histogram of how often each row is a neighbour; hubs form a long tail to the right."""
    from matplotlib.ticker import MaxNLocator

    k = diagnosis.sampling.neighbours
    most = max(round(float(view.occurrences.max())) for view in diagnosis.views)
    edges = np.arange(0, most + 2 + (step := math.ceil((most + 1) / 60)), step)
    most_rows = 1
    for view, (colour, line) in zip(diagnosis.views, VIEWS, strict=False):
        times = view.occurrences.numpy().round(6)  # rows at equal distance share a place: 10 may be 9.999…
        counts, _ = np.histogram(times, bins=edges)
        most_rows = max(most_rows, int(counts.max()))
        axis.stairs(
            counts, edges, color=colour, linestyle=line, linewidth=1.4, fill=len(diagnosis.views) == 1, alpha=0.75,
            label=f"{view.name}: skewness {view.hubness:.2f}, most {view.occurrences.max():,.0f}",
        )  # fmt: skip
    axis.axvline(k, color=SOFT, linewidth=1.1, linestyle=":", label=f"on average {k}")
    axis.set_yscale("symlog", linthresh=1)
    axis.set_ylim(0, 1.5 * most_rows)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlim(0, edges[-1])
    axis.minorticks_off()
    axis.set_xlabel(f"times among the {k} nearest of another row", size=8.5, color=INK)
    axis.set_ylabel("rows", size=8.5, color=INK)


def _density(histogram: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = histogram.numpy()
    return np.asarray(values / max(values.sum(), 1) * len(values) / 2)
