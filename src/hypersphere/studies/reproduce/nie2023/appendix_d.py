"""Nie et al. 2023, Appendix D: one lower bound for the uniformity of InfoNCE and L_uniform."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.figures.anatomy import (
    ALIGNMENT,
    INK,
    NEUTRAL,
    UNIFORMITY,
    frame,
    heading,
    new_figure,
)
from hypersphere.geometry import normalize, simplex
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.norms import T


def appendix_d(quick: bool = False) -> Finding:
    """Both uniformities from below by the mean squared distance q̄ of pairs (i, j≠i) (Jensen):
    L_uniform ≥ -t q̄;  mean_i log Σ_{j≠i} e^{s_ij/τ} ≥ log(N-1) + 1/τ - q̄/(2τ)."""
    size, dim, draws, tau = 32, 16, 20 if quick else 400, 0.5
    generator = torch.Generator().manual_seed(0)
    rows = []
    for k in range(draws):
        centre = 3 * k / draws * torch.randn(dim, generator=generator, dtype=torch.float64)
        x = normalize(centre + torch.randn(size, dim, generator=generator, dtype=torch.float64))[0]
        y = normalize(centre + torch.randn(size, dim, generator=generator, dtype=torch.float64))[0]
        rows.append(_uniformities(x @ y.T, tau))
    whole = simplex(size, size - 1).double()
    equal = _uniformities(whole @ whole.T, tau)
    slack = {name: [row[name] - row[f"{name} bound"] for row in rows] for name in ("uniform", "infonce")}
    printed = 1 / (2 * tau * size * (size - 1))
    tight = max(abs(equal["uniform"] - equal["uniform bound"]), abs(equal["infonce"] - equal["infonce bound"]))
    lowest = min(*slack["uniform"], *slack["infonce"])
    return Finding(
        "The uniformity of InfoNCE and L_uniform share a lower bound, minus the mean squared distance of pairs up to "
        "scale and constant, so both push all pairs apart.",
        f"Over {draws} random batches (N = {size}, τ = {tau}, t = {T:g}) both bounds hold (smallest slack {lowest:.1e})"
        f" and both are equalities at the simplex (difference {tight:.1e}), the constant being 1/τ = {1 / tau:g}."
        f" With the printed constant 1/(2τM(N-1)) = {printed:.1e} (M taken as N) the inequality is still true but "
        f"loose by {1 / tau - printed:.3f} everywhere, at the simplex too.",
        {
            "minus the mean squared distance (scale and constant aside) is below L_uniform": min(slack["uniform"])
            > -1e-9,
            "and below the uniformity of InfoNCE": min(slack["infonce"]) > -1e-9,
        },
        "E3: Eq. 46 prints the constant 1/(2τM(N-1)); it is 1/τ.",
        {"bounds": [*rows, equal]},
        {"appendix-d": _draw_uniformities(rows, equal, tau)},
    )


def _uniformities(similarity: Tensor, tau: float) -> dict[str, float]:
    size = len(similarity)
    off = ~torch.eye(size, dtype=torch.bool)
    squared = 2 - 2 * similarity[off]
    mean = squared.mean().item()
    rows = (similarity / tau).masked_fill(~off, -math.inf)
    return {
        "mean squared distance": mean,
        "uniform": (torch.logsumexp(-T * squared, dim=0) - math.log(len(squared))).item(),
        "uniform bound": -T * mean,
        "infonce": torch.logsumexp(rows, dim=1).mean().item(),
        "infonce bound": math.log(size - 1) + 1 / tau - mean / (2 * tau),
    }


def _draw_uniformities(rows: list[dict[str, float]], equal: dict[str, float], tau: float) -> Any:
    figure = new_figure(8.2, 3.9)
    heading(
        figure, "Both uniformities and their lower bound", "Random batches, from one direction to all; star: simplex."
    )
    axes = figure.subplots(
        1, 2, gridspec_kw={"left": 0.085, "right": 0.98, "bottom": 0.14, "top": 0.79, "wspace": 0.28}
    )
    ends = np.array([0.0, 2.15])
    lines = {
        "uniform": (-T * ends, f"L_uniform (t = {T:g})", "-t q̄"),
        "infonce": (math.log(31) + 1 / tau - ends / (2 * tau), f"uniformity of InfoNCE (τ = {tau:g})",
                    "log(N-1) + 1/τ - q̄/(2τ)"),
    }  # fmt: skip
    for axis, (name, (bound, words, formula)) in zip(axes, lines.items(), strict=True):
        axis.scatter(
            [r["mean squared distance"] for r in rows], [r[name] for r in rows], s=6, color=ALIGNMENT, linewidth=0
        )
        axis.scatter(equal["mean squared distance"], equal[name], s=90, marker="*", color=UNIFORMITY, zorder=4)
        axis.plot(ends, bound, color=NEUTRAL, linewidth=1.4, label=formula)
        axis.set_xlabel("mean squared distance q̄ of pairs", size=8.5, color=INK)
        axis.set_ylabel(words, size=8.5, color=INK)
        axis.legend(frameon=False, fontsize=8.5, labelcolor=INK)
        frame(axis)
    return figure
