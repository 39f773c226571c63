"""Li et al. 2024, Figures 2 and 10: mean dissipation over simulated angles."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from hypersphere.anatomy import (
    AngleGrid,
    simulate,
)
from hypersphere.figures.maps import HeatMap, Scale, heat_maps
from hypersphere.studies.reproduce.items import Finding

_log = logging.getLogger("hypersphere.reproduce")
TITLES = {"infonce": "InfoNCE, τ = 0.05", "arccon": "ArcCon, u = 10°", "mpt": "MPT, m = 0.23", "met": "MET, m = 0.45"}
# (μ_pos, μ_neg) in multiples of π: mean GD of InfoNCE, ArcCon, MPT, MET in an independent simulation of this set-up.
REFERENCE = {
    (1 / 20, 1 / 20): (0.99, 1.00, 1, 1),
    (1 / 20, 1 / 4): (0.51, 0.70, 1, 0.92),
    (1 / 20, 1 / 3): (0.03, 0.06, 0.05, 0.01),
    (1 / 6, 1 / 4): (0.91, 0.99, 1, 1),
    (1 / 6, 1 / 3): (0.25, 0.68, 0.98, 1),
    (1 / 6, 0.4): (0.01, 0.08, 0.02, 0.56),
    (1 / 6, 1 / 2): (0, 0, 0, 0),
    (1 / 4, 1 / 2): (0.00, 0.01, 0.00, 0.48),
    (1 / 3, 1 / 2): (0.06, 0.47, 0.40, 1),
}


def fig2(quick: bool = False) -> Finding:
    return _dissipation_figure("fig2", ("infonce", "arccon", "mpt", "met"), quick)


def fig10(quick: bool = False) -> Finding:
    return _dissipation_figure("fig10", ("infonce", "mpt"), quick)


def _dissipation_figure(item: str, names: tuple[str, ...], quick: bool) -> Finding:
    grid, mean_dissipation = _dissipation_maps(names, quick)
    positive, negative = (means.numpy() for means in grid.means())
    maps = [HeatMap(TITLES[name], values, values - 0.5) for name, values in mean_dissipation.items()]
    note = f"{grid.batches} batches of 1 positive and {grid.negatives} negatives at each point; line: GD = 1/2."
    drawn = heat_maps(
        "Mean gradient dissipation",
        maps,
        positive,
        negative,
        Scale("mean GD"),
        ("mean angle μ", "mean angle μ"),
        note=note,
    )
    batches = 500 if quick else 4000
    apart = max(abs(each) for row in reference_differences(names, batches).values() for each in row)
    far = negative[None, :] - positive[:, None] > pi / 4
    near = np.abs(negative[None, :] - positive[:, None]) < 0.05
    stopped = {name: float(values[far].mean()) for name, values in mean_dissipation.items()}
    diagonal = {name: float(values[near].mean()) for name, values in mean_dissipation.items()}
    listed = ", ".join(f"{TITLES[n].split(',')[0]} {diagonal[n]:.2f} and {stopped[n]:.3f}" for n in names)
    rows = [
        {"loss": name, "mu_pos": p, "mu_neg": n, "mean GD": values[i, j]}
        for name, values in mean_dissipation.items()
        for i, p in enumerate(positive)
        for j, n in enumerate(negative)
    ]
    # Four standard errors of a mean of values within [0, 1], and the reference's two decimals.
    allowed = 0.005 + 4 * 0.5 * math.sqrt(1 / batches + 1 / 4000)
    sound = apart < allowed  # else the maps have another set-up and are no evidence on the paper's
    return Finding(
        "GD is 1 while the negatives are about as near as the positive and falls fast to 0 as they move away.",
        f"Mean GD on the diagonal, and where the negatives are more than π/4 farther: {listed}. At nine reference "
        f"points an independent simulation of this set-up differs by at most {apart:.3f} (allowed {allowed:.3f}).",
        {
            "1 while the negatives are about as near as the positive (here: mean above 0.9)": min(diagonal.values())
            > 0.9
            if sound
            else None,
            "falls fast to 0 as they move away (here: mean below 0.2)": max(stopped.values()) < 0.2 if sound else None,
        },
        "E9: Appendix B names the wrong figure for InfoNCE and MPT; Figure 10 is the one." if item == "fig10" else "",
        {item: rows},
        {item: drawn},
    )


def _grid(quick: bool) -> AngleGrid:
    return AngleGrid(points=12, batches=20) if quick else AngleGrid()


def _told(name: str) -> Callable[[int, int], None]:
    """Reports the progress of a simulation."""

    def progress(done: int, total: int) -> None:
        _log.info("%s, row %d of %d", TITLES[name], done, total, extra={"done": done, "total": total})

    return progress


def _dissipation_maps(names: tuple[str, ...], quick: bool) -> tuple[AngleGrid, dict[str, Any]]:
    grid = _grid(quick)
    mean_dissipation = {}
    for name in names:
        mean_dissipation[name] = simulate(name, grid, progress=_told(name)).numpy()
    return grid, mean_dissipation


def reference_differences(names: tuple[str, ...], batches: int) -> dict[tuple[float, float], list[float]]:
    """Mean GD at the reference points minus the reference."""
    order = tuple(TITLES)
    differences: dict[tuple[float, float], list[float]] = {}
    for (positive, negative), known in REFERENCE.items():
        spot = AngleGrid((positive * pi,) * 2, (negative * pi,) * 2, points=1, batches=batches, seed=1)
        differences[positive, negative] = [simulate(n, spot).item() - known[order.index(n)] for n in names]
    return differences
