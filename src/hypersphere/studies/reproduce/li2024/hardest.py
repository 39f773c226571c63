"""Li et al. 2024, Figure 3: the share of the hardest negative in the weight, unfiltered and as released."""

from __future__ import annotations

import logging
from math import pi
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy import (
    AngleGrid,
    Components,
    hardest_share,
)
from hypersphere.anatomy.simulation import simulate_rows
from hypersphere.figures.anatomy import ALIGNMENT, INK, frame, heading, new_figure
from hypersphere.figures.maps import angle_axis
from hypersphere.studies.reproduce.items import Finding

_log = logging.getLogger("hypersphere.reproduce")
TEMPERATURES = (0.3, 0.1, 0.05, 0.03, 0.01, 0.005)
HALF = 0.5


def fig3(quick: bool = False) -> Finding:
    """Share of the hardest negative in the weight, as in the text and as drawn by the released program."""
    points, batches = (12, 50) if quick else (100, 1000)
    text = AngleGrid((pi / 6, pi / 6), points=points, batches=batches)
    code = AngleGrid((0.5, 0.5), points=points, batches=batches)
    plain: dict[float, Any] = {}
    released: dict[float, Any] = {}
    for index, tau in enumerate(TEMPERATURES):
        _log.info("τ = %g", tau, extra={"done": index, "total": len(TEMPERATURES)})
        plain[tau] = next(simulate_rows("infonce", text, hardest_share, temperature=tau)).numpy()
        kept = next(simulate_rows("infonce", code, _hardest_if_moving, temperature=tau))
        share = next(simulate_rows("infonce", code, _moves, temperature=tau))
        released[tau] = torch.where(share > 0, kept / share.clamp_min(1e-12), 1.0).numpy()
    means = text.means()[1].numpy()
    rows = [
        {"temperature": tau, "mu_neg": mu, "share": plain[tau][k], "share as released": released[tau][k]}
        for tau in TEMPERATURES
        for k, mu in enumerate(means)
    ]
    peak = means[int(plain[0.05].argmax())] / pi
    jump = means[int((released[0.05] > 0.99).argmax())] / pi
    largest = {tau: float(plain[tau].max()) for tau in TEMPERATURES}
    clauses: dict[str, bool | None] = {
        f"the hardest takes over at τ = {tau:g} (here: more than half of the weight, unfiltered)": share > HALF
        for tau, share in largest.items()
        if tau < 0.3
    }
    clauses["its share falls sharply at τ = 0.3 (here: to less than half of that at 0.1)"] = (
        largest[0.3] < HALF * largest[0.1]
    )
    return Finding(
        "The share of the hardest negative in the weight for six temperatures: as the negatives move away the hardest "
        "one takes over, while at τ = 0.3 its share falls sharply (section 3.2.2).",
        f"Unfiltered, with τ = 0.05 its share peaks at {largest[0.05]:.2f} (μ_neg = {peak:.2f}π) and falls to "
        f"{plain[0.05][-1]:.3f} at π; it passes one half only for τ = "
        f"{', '.join(f'{tau:g}' for tau, share in largest.items() if share > HALF) or 'none'}, and is at most "
        f"{largest[0.3]:.3f} for τ = 0.3. As released (batches with GD ≥ 0.01 only, and 1 where none is left) it "
        f"reaches 1 at {jump:.2f}π for τ = 0.05: the rise to 1 is the fill value, not the weight.",
        clauses,
        "The text says μ_pos = π/6 and no filter; the released program has μ_pos = 0.5, the filter and the fill value.",
        {"fig3": rows},
        {"fig3": _draw_shares(means, plain, released)},
        fault="The claim: the same program shows the published rise with the released filter and fill value, and not "
        "without them, so neither the implementation nor the scale, which is the paper's, is at fault."
        if False in clauses.values()
        else "",
    )


def _hardest_if_moving(components: Components) -> Tensor:
    return hardest_share(components) * (components.dissipation >= 0.01)


def _moves(components: Components) -> Tensor:
    return (components.dissipation >= 0.01).to(components.dissipation)


def _draw_shares(means: Any, plain: dict[float, Any], released: dict[float, Any]) -> Any:
    figure = new_figure(8.8, 4.0)
    heading(figure, "Share of the hardest negative in the weight of InfoNCE", "Mean over batches with 127 negatives.")
    axes = figure.subplots(1, 2, sharey=True, gridspec_kw={"left": 0.075, "right": 0.86, "bottom": 0.14, "top": 0.78,
                                                          "wspace": 0.1})  # fmt: skip
    greys = ("#c3ccd4", "#98a4af", ALIGNMENT, "#6b7885", "#3d4b58", "#101418")
    dashes: tuple[Any, ...] = ((0, (1, 1)), (0, (4, 1.5)), "-", (0, (6, 2, 1, 2)), "--", "-")
    titles = (
        r"unfiltered, $\mu_\mathrm{pos}$ = π/6 (as the text says)",
        r"as released: GD ≥ 0.01 only, else 1; $\mu_\mathrm{pos}$ = 0.5",
    )
    for axis, curves, title in zip(axes, (plain, released), titles, strict=True):
        for (tau, values), colour, dash in zip(curves.items(), greys, dashes, strict=True):
            axis.plot(means, values, color=colour, linestyle=dash, linewidth=1.6, label=f"τ = {tau:g}")
        axis.set_title(title, size=9, color=INK, loc="left")
        axis.set_xlabel("mean angle μ of the negatives", size=8.5, color=INK)
        axis.set_ylim(0, 1.04)
        frame(axis)
        angle_axis(axis.xaxis, (means[0], means[-1]))
    axes[0].set_ylabel("share of the hardest", size=8.5, color=INK)
    axes[1].legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure
