"""Li et al. 2024, Lemma 1: the interval of ratios against the step itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy import (
    ratio_interval,
)
from hypersphere.figures.anatomy import (
    ALIGNMENT,
    INK,
    UNIFORMITY,
    frame,
    heading,
    new_figure,
)
from hypersphere.geometry import normalize, tangent
from hypersphere.studies.reproduce.items import Finding


def lemma1(quick: bool = False) -> Finding:
    """The interval of Lemma 1 against the step itself, in the tangent plane and on the sphere."""
    draws = 400 if quick else 20000
    generator = torch.Generator().manual_seed(0)
    rows = []
    mismatches = checked = below = 0
    for dim in (3, 16, 128):
        for step in (0.05, 0.1, 0.5, 1.0, 2.0):
            h, y, n = (
                normalize(torch.randn(draws, dim, generator=generator, dtype=torch.float64))[0] for _ in range(3)
            )
            low, high = ratio_interval(h, y, n, step)
            none = low.isnan()
            # Ratios on both sides of both ends; anything where there is no interval.
            spread = torch.where(none, 2 / step, high - low)
            start = torch.where(none, 0.0, low)
            ratio = start + spread * (3 * torch.rand(draws, generator=generator, dtype=torch.float64) - 1)
            p, q = tangent(y, h), tangent(n, h)
            after = torch.linalg.vector_norm(p - step * (ratio[:, None] * p - q), dim=1)
            closer = after < torch.linalg.vector_norm(p, dim=1)
            said = (ratio > low) & (ratio < high)
            moved = normalize(h + step * (ratio[:, None] * y - n))[0]
            on_sphere = (moved * y).sum(1) > (h * y).sum(1)
            beside = 2 * torch.rand(draws, generator=generator, dtype=torch.float64) - 1
            wrong = int((closer != said).sum())
            mismatches, checked = mismatches + wrong, checked + draws
            below += int((closer & ~(ratio > low)).sum())  # includes anchors without a lower end
            rows.append({
                "dim": dim, "step": step, "draws": draws, "mismatches": wrong,
                "share without solution": float(none.double().mean()),
                "median lower end": float(low[~none].median()), "median upper end": float(high[~none].median()),
                "same verdict on the sphere near the lower end": _mean(_agree_near(h, y, n, low, step, beside)[~none]),
                "closer on the sphere above it": _mean(on_sphere[ratio > high]),
            })  # fmt: skip
    usual = [row for row in rows if row["step"] == 0.1]
    listed = ", ".join(f"{row['share without solution']:.2%} (D = {row['dim']})" for row in usual)
    small = [row for row in rows if row["step"] == 0.05]
    sphere, over = (
        sum(float(str(row[key])) for row in small) / len(small)
        for key in ("same verdict on the sphere near the lower end", "closer on the sphere above it")
    )
    large = max(float(str(row["share without solution"])) for row in rows)
    return Finding(
        "Lemma 1: the ratio must be above 1/λ + k cos α - sqrt(1/λ² - k² sin² α), k = sin θ_neg/sin θ_pos, for a step "
        "to bring the anchor closer to its positive.",
        f"In the tangent plane the interval and the step itself disagree in {mismatches} of {checked} draws: the lower "
        "end is right, but not enough, because beyond an upper end (the same with + before the root) the anchor "
        f"overshoots. No ratio works in {listed} of the draws at λ = 0.1 and in up to {large:.0%} at larger steps. "
        "On the sphere itself, the moved anchor scaled back to length 1, the lower end gives the right verdict for "
        f"{sphere:.1%} of ratios within 1 of it at λ = 0.05, while {over:.0%} of those above the upper end come closer "
        "all the same: the upper end is one of the tangent plane.",
        {"no ratio at or below the lower end brings the anchor closer": below == 0},
        "The paper states the lower end only; the upper end and the case without solution are added here.",
        {"lemma1": rows},
        {"lemma1": _draw_lemma(rows)},
    )  # fmt: skip


def _agree_near(h: Tensor, y: Tensor, n: Tensor, low: Tensor, step: float, beside: Tensor) -> Tensor:
    """Whether the lower end predicts, for ratios within 1 of it, if the anchor scaled back to length 1 comes closer."""
    moved = normalize(h + step * ((low + beside).nan_to_num()[:, None] * y - n))[0]
    return ((moved * y).sum(1) > (h * y).sum(1)) == (beside > 0)


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if len(values) else math.nan


def _draw_lemma(rows: list[dict[str, Any]]) -> Any:
    figure = new_figure(9.6, 3.7)
    heading(figure, "Lemma 1 against the step itself", "Random anchors, positives and negatives.")
    axes = figure.subplots(
        1, 3, gridspec_kw={"left": 0.065, "right": 0.985, "bottom": 0.15, "top": 0.77, "wspace": 0.28}
    )
    looks = {3: (UNIFORMITY, "o", "-"), 16: (ALIGNMENT, "s", "--"), 128: (INK, "^", ":")}
    what: tuple[tuple[str, Callable[[dict[str, Any]], float]], ...] = (
        ("draws without any ratio", lambda row: row["share without solution"]),
        ("lower and upper end (medians)", lambda row: row["median lower end"]),
        ("right on the sphere, near the lower end", lambda row: row["same verdict on the sphere near the lower end"]),
    )
    words = ("share of draws", "ratio r", "share of ratios within 1 of it")
    for axis, (title, value), word in zip(axes, what, words, strict=True):
        for dim, (colour, marker, line) in looks.items():
            chosen = [row for row in rows if row["dim"] == dim]
            steps = [row["step"] for row in chosen]
            style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
            axis.plot(steps, [value(row) for row in chosen], label=f"D = {dim}", **style)
            if "ends" in title or "upper" in title:
                axis.plot(steps, [row["median upper end"] for row in chosen], **style)
        axis.set_xscale("log")
        axis.set_xticks(steps, [f"{step:g}" for step in steps])
        axis.minorticks_off()
        axis.set_ylabel(word, size=8.5, color=INK)
        axis.set_title(title, size=9, color=INK, loc="left")
        axis.set_xlabel("step λ", size=8.5, color=INK)
        frame(axis)
    axes[0].legend(frameon=False, fontsize=8.5, labelcolor=INK)
    axes[1].set_yscale("symlog", linthresh=1)
    axes[1].set_yticks([0, 0.5, 1, 3, 10, 40], ["0", "0.5", "1", "3", "10", "40"])
    axes[1].minorticks_off()
    axes[1].set_ylim(-0.3, 60)
    axes[2].set_ylim(0, 1.03)
    return figure
