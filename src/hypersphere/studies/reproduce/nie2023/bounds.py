"""Nie et al. 2023, section 4: the chain of upper bounds InfoNCE, DCL+, MPT, with its slack."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.figures.anatomy import (
    ALIGNMENT,
    INK,
    UNIFORMITY,
    frame,
    heading,
    new_figure,
)
from hypersphere.geometry import normalize
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.norms import TAU

QUANTILES = (0, 5, 25, 50, 75, 95, 100)
TEMPERATURES = (0.03, 0.05, 0.1, 0.2, 0.5)


def bounds(quick: bool = False) -> Finding:
    """InfoNCE ≤ log 2 + DCL+ ≤ log 2 + MPT/τ with m = τ log(N-1), anchor by anchor."""
    size, draws = 32, 6 if quick else 300
    slacks: dict[float, tuple[Tensor, Tensor]] = {}
    curves: dict[str, Tensor] = {}
    for tau in TEMPERATURES:
        losses = {
            "InfoNCE": create_objective("infonce", temperature=tau, reduction="none"),
            "DCL+": create_objective("dcl_plus", temperature=tau, reduction="none"),
            "MPT": create_objective("mpt", margin=tau * math.log(size - 1), reduction="none"),
        }
        views = _views(draws, size, 16, seed=0)
        per_anchor = {name: torch.cat([loss(x, y) for x, y in views]) for name, loss in losses.items()}
        first = math.log(2) + per_anchor["DCL+"] - per_anchor["InfoNCE"]
        second = per_anchor["MPT"] / tau - per_anchor["DCL+"]
        slacks[tau] = (first, second)
        if tau == TAU:
            gap = torch.cat([(x * y).sum(1) - _hardest(x @ y.T) for x, y in views])
            curves = {"gap": gap, **per_anchor}
    lowest = min(float(each.min()) for pair in slacks.values() for each in pair)
    rows = [
        {"temperature": tau, "step": step, **{f"q{q}": float(torch.quantile(slack, q / 100)) for q in QUANTILES}}
        for tau, pair in slacks.items()
        for step, slack in zip(("InfoNCE to log2 + DCL+", "DCL+ to MPT/tau"), pair, strict=True)
    ]  # fmt: skip
    half = slacks[TAU]
    return Finding(
        "InfoNCE ≤ log 2 + DCL+ ≤ log 2 + MPT/τ for every anchor when m = τ log(N-1).",
        f"Over {draws} random batches of {size} at {len(TEMPERATURES)} temperatures the smallest slack is {lowest:.1e}."
        f" The first step never gives away more than log 2 (largest {float(half[0].max()):.3f} at τ = {TAU}); the "
        f"second gives away {float(half[1].median()):.2f} at the median and {float(half[1].max()):.2f} at most, since "
        "MPT counts every negative as if it were the hardest.",
        {
            "InfoNCE ≤ log 2 + DCL+": min(float(first.min()) for first, _ in slacks.values()) > -1e-9,
            "DCL+ ≤ MPT/τ": min(float(second.min()) for _, second in slacks.values()) > -1e-9,
        },
        "E2: Eq. 12 and 13 print h_j where the other view's h'_j is meant; N is the batch, so there are N-1 negatives.",
        {"slack": rows},
        {"bounds": _draw_bounds(curves, slacks)},
    )


def _views(draws: int, size: int, dim: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Random pairs of views, from unrelated to nearly equal."""
    generator = torch.Generator().manual_seed(seed)
    views = []
    for k in range(draws):
        noise = 3.0 * (k + 1) / draws
        x = torch.randn(size, dim, generator=generator, dtype=torch.float64)
        y = x + noise * torch.randn(size, dim, generator=generator, dtype=torch.float64)
        views.append((normalize(x)[0], normalize(y)[0]))
    return views


def _hardest(similarity: Tensor) -> Tensor:
    return similarity.clone().fill_diagonal_(-math.inf).amax(dim=1)


def _draw_bounds(curves: dict[str, Tensor], slacks: dict[float, tuple[Tensor, Tensor]]) -> Any:
    figure = new_figure(10.2, 3.9)
    heading(figure, "InfoNCE under its upper bounds", "Random batches of 32, anchor by anchor; m = τ log(N-1).")
    left, middle, right = figure.subplots(1, 3, gridspec_kw={"left": 0.065, "right": 0.985, "bottom": 0.14, "top": 0.79,
                                                             "wspace": 0.26})  # fmt: skip
    order = curves["gap"].argsort()
    gap = curves["gap"][order].numpy()
    for name, values, colour, marker in (
        ("log 2 + MPT/τ", math.log(2) + curves["MPT"] / TAU, UNIFORMITY, "^"),
        ("log 2 + DCL+", math.log(2) + curves["DCL+"], "#98a4af", "s"),
        ("InfoNCE", curves["InfoNCE"], ALIGNMENT, "o"),
    ):
        some = slice(None, None, max(1, len(gap) // 1500))
        left.scatter(
            gap[some],
            values[order].numpy()[some],
            s=5,
            color=colour,
            marker=marker,
            linewidth=0,
            label=name,
            rasterized=True,
        )
    left.set_xlabel(r"gap $s_\mathrm{pos} - \max\, s_\mathrm{neg}$", size=8.5, color=INK)
    left.set_ylabel(f"loss of one anchor (τ = {TAU})", size=8.5, color=INK)
    left.legend(frameon=False, fontsize=8, labelcolor=INK, markerscale=2.5)
    titles = ("slack of InfoNCE ≤ log 2 + DCL+", "slack of DCL+ ≤ MPT/τ")
    greys = ("#101418", "#3d4b58", "#5b6874", "#7d8994", "#98a4af")
    dashes: tuple[Any, ...] = ("-", "--", (0, (6, 2, 1, 2)), (0, (1, 1)), (0, (4, 1.5)))
    for step, axis in enumerate((middle, right)):
        for (tau, pair), colour, dash in zip(slacks.items(), greys, dashes, strict=True):
            slack = pair[step].sort().values.numpy()
            below = (np.arange(len(slack)) + 1) / len(slack)
            axis.plot(slack, below, color=colour, linestyle=dash, linewidth=1.5, label=f"τ = {tau:g}")
        axis.set_xlabel(titles[step], size=8.5, color=INK)
        axis.set_xlim(left=-0.02)
    middle.axvline(math.log(2), color=UNIFORMITY, linewidth=0.9, linestyle=":")
    middle.text(math.log(2) - 0.01, 0.03, "log 2", size=8, color=UNIFORMITY, ha="right")
    middle.set_ylabel("share of anchors below", size=8.5, color=INK)
    right.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower right")
    for axis in (left, middle, right):
        frame(axis)
    return figure
