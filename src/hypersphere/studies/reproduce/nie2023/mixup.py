"""Nie et al. 2023, Appendix E: bounds of InfoNCE with mixed negatives."""

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
from hypersphere.studies.reproduce.items import Finding


def mixup_bounds(quick: bool = False) -> Finding:
    """Appendix E: bounds of InfoNCE with M mixed negatives beside its n own ones."""
    draws, size, dim, more, lam = (60 if quick else 2000), 16, 8, 8, 0.2
    generator = torch.Generator().manual_seed(0)
    slack: dict[str, list[float]] = {"negative with negative": [], "positive with negative": []}
    harder = {"as it is": 0, "re-normalised": 0}
    used = 0
    for _ in range(draws):
        h, p = normalize(torch.randn(2, dim, generator=generator, dtype=torch.float64))[0]
        p = normalize((p + 2 * torch.rand(1, generator=generator, dtype=torch.float64) * h).unsqueeze(0))[0][0]
        others = normalize(torch.randn(size - 1, dim, generator=generator, dtype=torch.float64))[0]
        tau = float(0.03 + 0.4 * torch.rand(1, generator=generator))
        near = (others @ h).max().item()
        pairs = torch.randint(size - 1, (2, more), generator=generator)
        share = torch.rand(more, 1, generator=generator, dtype=torch.float64)
        first = share * others[pairs[0]] + (1 - share) * others[pairs[1]]
        slack["negative with negative"].append(
            mixed_bound(h, p, others, first, tau) - mixed_loss(h, p, others, first, tau)
        )
        harder["as it is"] += bool((first @ h).max() > near + 1e-12)
        harder["re-normalised"] += bool((normalize(first)[0] @ h).max() > near + 1e-12)
        second = lam * p + (1 - lam) * others[pairs[0]]
        if (second @ h).max() > near:
            used += 1
            bound = mixed_bound(h, p, others, second, tau, lam)
            slack["positive with negative"].append(bound - mixed_loss(h, p, others, second, tau))
    lowest = {kind: min(values) for kind, values in slack.items()}
    shares = {kind: count / draws for kind, count in harder.items()}
    rows = [{"kind": kind, "slack": value} for kind, values in slack.items() for value in values]
    return Finding(
        "Negatives mixed of negatives keep the bound of a triplet with margin τ log(n+M); negatives mixed with the "
        "positive have, where a mix is the hardest, that of margin τ log(n+M)/(1-λ), scaled by 1-λ: mixing the "
        "positive in acts as a larger margin. A mix of negatives is never harder than the hardest negative.",
        f"Over {draws} draws (n = {size - 1}, M = {more}) the smallest slack is {lowest['negative with negative']:.2f} "
        f"(negatives mixed) and {lowest['positive with negative']:.2f} (positive mixed in, λ = {lam}, {used} draws "
        f"whose hardest is a mix). A mix of negatives was the hardest in {shares['as it is']:.1%} of the draws; "
        f"re-normalised, as released code has it, in {shares['re-normalised']:.1%}.",
        {
            "the bound for negatives mixed of negatives": lowest["negative with negative"] > 0,
            "the bound for negatives mixed with the positive": lowest["positive with negative"] > 0,
            "a mix of negatives, not re-normalised, is never harder than the hardest negative": harder["as it is"] == 0,
        },
        "The claim about hardness holds only while mixes are not re-normalised to unit length.",
        {"slack": rows},
        {"mixup-bounds": _draw_mixup(slack, shares)},
    )


def mixed_loss(h: Tensor, p: Tensor, others: Tensor, mixed: Tensor, tau: float) -> float:
    logits = torch.cat([(h @ p).unsqueeze(0), others @ h, mixed @ h]) / tau
    return float(torch.logsumexp(logits, dim=0) - logits[0])


def mixed_bound(h: Tensor, p: Tensor, others: Tensor, mixed: Tensor, tau: float, lam: float = 0.0) -> float:
    """log 2 + ((1-λ)/τ) max(0, -s_pos + max s_neg + τ log(n+M)/(1-λ)); λ = 0 for mixes of negatives."""
    margin = tau * math.log(len(others) + len(mixed)) / (1 - lam)
    return math.log(2) + (1 - lam) / tau * max(0.0, float((others @ h).max() - h @ p) + margin)


def _draw_mixup(slack: dict[str, list[float]], shares: dict[str, float]) -> Any:
    figure = new_figure(8.2, 3.8)
    heading(
        figure,
        "InfoNCE with mixed negatives under its bounds",
        "Slack of the bound over random anchors and temperatures.",
    )
    left, right = figure.subplots(
        1,
        2,
        gridspec_kw={"left": 0.08, "right": 0.98, "bottom": 0.14, "top": 0.79, "wspace": 0.3, "width_ratios": (2, 1)},
    )
    for (kind, values), colour, line in zip(slack.items(), (ALIGNMENT, UNIFORMITY), ("-", "--"), strict=True):
        ordered = np.sort(values)
        place = (np.arange(len(ordered)) + 1) / len(ordered)
        left.plot(ordered, place, color=colour, linestyle=line, linewidth=1.7, label=kind)
    left.axvline(0, color=INK, linewidth=0.9)
    left.set(ylim=(0, 1.02), xlim=(-0.1, None))
    left.set_xlabel("bound - loss (0: the bound is reached)", size=8.5, color=INK)
    left.set_ylabel("share of draws below", size=8.5, color=INK)
    left.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="lower right")
    bars = right.bar(list(shares), list(shares.values()), color=[ALIGNMENT, UNIFORMITY], width=0.55)
    right.bar_label(bars, [f"{value:.1%}" for value in shares.values()], size=8.5, color=INK, padding=2)
    right.set_ylabel("draws with a mix of negatives\nharder than all negatives", size=8.5, color=INK)
    right.set_ylim(0, max(0.1, 1.2 * max(shares.values())))
    for axis in (left, right):
        frame(axis)
    return figure
