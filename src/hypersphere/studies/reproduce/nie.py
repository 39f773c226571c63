"""Nie et al. 2023, what needs no training: gradient-norm maps, the chain of bounds, Appendices D and E."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.anatomy import dissect
from hypersphere.figures.anatomy import (
    ALIGNMENT,
    INK,
    NEUTRAL,
    UNIFORMITY,
    HeatMap,
    frame,
    heading,
    heat_maps,
    new_figure,
)
from hypersphere.geometry import normalize, simplex
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding

TAU, T = 0.05, 2.0
MARGINS = {"mpt": 0.23, "met": 0.45, "mat": 0.15 * math.pi}
QUANTILES = (0, 5, 25, 50, 75, 95, 100)
COUNTS = (64, 512, 4096, 65536)
TEMPERATURES = (0.03, 0.05, 0.1, 0.2, 0.5)

Norms = tuple[Any, Any]  # alignment part; all negatives together


def norms(name: str, positive: Any, negative: Any, count: int = 64) -> Norms:
    """Lengths of the two parts of an anchor's tangential gradient, its positive at one angle and all ``count``
    negatives at another, in one place (1/‖g‖ dropped). For align_uniform: of either term alone, times N.

    >>> [round(float(part), 6) for part in norms("mat", 0.5, 0.6)]
    [1.0, 1.0]
    """
    if name in ("infonce", "dcl", "dcl_plus"):
        gate = _softmax_gate(name, positive, negative, count)
        return gate * np.sin(positive) / TAU, gate * np.sin(negative) / TAU
    if name == "align_uniform":
        return 2 * np.sin(positive) + 0 * negative, 2 * T * np.sin(negative) + 0 * positive
    gate = np.where(edge(name, positive, negative, count) < 0, 1.0, 0.0)
    if name == "mpt":
        return gate * np.sin(positive), gate * np.sin(negative)
    if name == "met":
        return gate * np.cos(positive / 2), gate * np.cos(negative / 2)
    return gate, gate


def edge(name: str, positive: Any, negative: Any, count: int = 64) -> Any:
    """Gap minus the gap at which the gradient dissipates: zero on the edge, above it beyond."""
    if name == "met":
        return 2 * np.sin(negative / 2) - 2 * np.sin(positive / 2) - MARGINS[name]
    if name == "mat":
        return negative - positive - MARGINS[name]
    gap = np.cos(positive) - np.cos(negative)
    return gap - (MARGINS["mpt"] if name == "mpt" else TAU * math.log(count))


def _softmax_gate(name: str, positive: Any, negative: Any, count: int) -> Any:
    beyond = edge(name, positive, negative, count)
    if name == "infonce":
        return 1 / (1 + np.exp(np.clip(beyond / TAU, -500, 500)))
    return np.where(beyond < 0, 1.0, 0.0) if name == "dcl_plus" else np.ones_like(beyond)


def measured_norms(name: str, positive: float, negative: float, count: int = 64) -> tuple[float, float]:
    """The same by ``dissect`` on vectors placed at those angles: one anchor, and its negatives in one place."""
    h = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]], dtype=torch.float64)
    away = torch.tensor([math.cos(negative), 0, math.sin(negative)], dtype=torch.float64)
    pulls = torch.tensor([math.cos(positive), math.sin(positive), 0], dtype=torch.float64)
    settings: dict[str, Any] = {"temperature": TAU} if name in ("infonce", "dcl", "dcl_plus") else {}
    if name in MARGINS:
        settings["margin"] = MARGINS[name]
    found = dissect(create_objective(name, **settings), h, torch.stack([pulls, away]),
                    negatives=away.expand(count - 1, 3) if count > 1 else None)  # fmt: skip
    parts = found.parts()
    return parts["alignment"][0].norm().item(), parts["uniformity"][0].norm().item()


_PANELS: list[tuple[str, str, int, float, str]] = [
    *((f"InfoNCE, n = {count}", "infonce", count, TAU, "τ log n") for count in COUNTS),
    ("L_align / L_uniform", "align_uniform", 64, 0.0, ""),
    ("DCL, n = 64", "dcl", 64, TAU, ""),
    ("DCL+, n = 64", "dcl_plus", 64, TAU, "τ log n"),
    ("MPT, m = 0.23", "mpt", 64, 1.0, "m"),
    ("MET, m = 0.45", "met", 64, 1.0, "m"),
    ("MAT, m = 0.15π", "mat", 64, 1.0, "m"),
]


def fig2(quick: bool = False) -> Finding:
    """The alignment part."""
    return _maps("fig2", 0, "alignment", "‖∇_pos‖", quick)


def fig4(quick: bool = False) -> Finding:
    """The uniformity part."""
    return _maps("fig4", 1, "uniformity", "‖∇_neg‖", quick)


def _maps(item: str, part: int, word: str, letter: str, quick: bool) -> Finding:
    side = np.linspace(0, math.pi, 31 if quick else 91)
    negative, positive = np.meshgrid(side, side)
    # Where the positive is nearer, without the border, along which sin θ vanishes for every loss.
    nearer = (positive < negative) & (positive > 0.02) & (negative < math.pi - 0.02)
    maps, rows = [], []
    still: dict[str, float] = {}
    for title, name, count, scale, gap in _PANELS:
        scale = scale or (1 / 2 if part == 0 else 1 / (2 * T))
        values = norms(name, positive, negative, count)[part] * scale
        beyond = edge(name, positive, negative, count) if gap else None
        still[title] = float((values < 0.01)[nearer].mean())
        maps.append(HeatMap(title, values, beyond, note=f"1 is {1 / scale:g}"))
        rows += [
            {"loss": title, "theta_pos": p, "theta_neg": n, "norm": v / scale, "unit": 1 / scale}
            for p, n, v in zip(positive.ravel(), negative.ravel(), values.ravel(), strict=True)
        ]
    apart = _largest_difference(part, 2 if quick else 40, 5000 if quick else 10**6)
    shrinking = [still[title] for title, name, *_ in _PANELS if name == "infonce"]
    growing = all(a > b for a, b in pairwise(shrinking))
    title = f"Length of the {word} part of an anchor's gradient"
    note = "Colour: length, in the unit that each panel prints. Line: edge of dissipation."
    drawn = heat_maps(title, maps, side, side, f"{letter} (in units)", columns=5, note=note)
    together = "" if part == 0 else " All negatives stand in one place and are counted together."
    return Finding(
        title,
        f"The {word} part of InfoNCE's gradient vanishes right of cos θ_pos - cos θ_neg = τ log n, a region that "
        "shrinks as n grows; alignment/uniformity and DCL have no such region; DCL+, MPT, MET and MAT have it with a "
        "sharp edge, their lengths being sin θ/τ, sin θ, cos(θ/2) and 1.",
        f"Formulas and the gradients that dissect takes from vectors at the same angles differ by at most {apart:.1e} "
        f"(relative). Where the positive is nearer, the share of the map below 1 % of the unit is "
        f"{', '.join(f'{x:.0%} (n = {n})' for x, n in zip(shrinking, COUNTS, strict=True))} for InfoNCE and "
        f"{still['DCL, n = 64']:.0%} for DCL.{together}",
        apart < 1e-9 and growing and still["DCL, n = 64"] == 0,
        "E2: the printed norm of DCL+ has sin θ_ij' in the alignment part where sin θ_ii' is meant, Eq. 20 to 22 have "
        "signs of the gate reversed; corrected here. Counts above 64 and the panels' parameters are not printed: "
        f"τ = {TAU}, t = {T:g}, m as in the titles are ours.",
        {"maps": rows},
        {item: drawn},
    )


def _largest_difference(part: int, draws: int, most: int) -> float:
    random = np.random.default_rng(0)
    apart = 0.0
    for _, name, count, *_ in _PANELS:
        if name == "align_uniform" or count > most:
            continue  # its pairs are coupled through the batch; a test places a whole batch instead
        for positive, negative in random.uniform(0.1, 3.0, (draws if count < 10_000 else 2, 2)):
            formula = float(norms(name, positive, negative, count)[part])
            found = measured_norms(name, positive, negative, count)[part]
            apart = max(apart, abs(formula - found) / max(abs(formula), 1e-6))
    return apart


def _views(draws: int, size: int, dim: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Random pairs of views, from unrelated to nearly equal."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for k in range(draws):
        noise = 3.0 * (k + 1) / draws
        x = torch.randn(size, dim, generator=generator, dtype=torch.float64)
        y = x + noise * torch.randn(size, dim, generator=generator, dtype=torch.float64)
        found.append((normalize(x)[0], normalize(y)[0]))
    return found


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
        found = {name: torch.cat([loss(x, y) for x, y in views]) for name, loss in losses.items()}
        first = math.log(2) + found["DCL+"] - found["InfoNCE"]
        second = found["MPT"] / tau - found["DCL+"]
        slacks[tau] = (first, second)
        if tau == TAU:
            gap = torch.cat([(x * y).sum(1) - _hardest(x @ y.T) for x, y in views])
            curves = {"gap": gap, **found}
    lowest = min(float(each.min()) for pair in slacks.values() for each in pair)
    rows = [
        {"temperature": tau, "step": step, **{f"q{q}": float(torch.quantile(slack, q / 100)) for q in QUANTILES}}
        for tau, pair in slacks.items()
        for step, slack in zip(("InfoNCE to log2 + DCL+", "DCL+ to MPT/tau"), pair, strict=True)
    ]  # fmt: skip
    half = slacks[TAU]
    return Finding(
        "The chain of upper bounds",
        "InfoNCE ≤ log 2 + DCL+ ≤ log 2 + MPT/τ for every anchor when m = τ log(N-1).",
        f"Over {draws} random batches of {size} at {len(TEMPERATURES)} temperatures the smallest slack is {lowest:.1e}."
        f" The first step never gives away more than log 2 (largest {float(half[0].max()):.3f} at τ = {TAU}); the "
        f"second gives away {float(half[1].median()):.2f} at the median and {float(half[1].max()):.2f} at most, since "
        "MPT counts every negative as if it were the hardest.",
        lowest > -1e-9,
        "E2: Eq. 12 and 13 print h_j where the other view's h'_j is meant; N is the batch, so there are N-1 negatives.",
        {"slack": rows},
        {"bounds": _draw_bounds(curves, slacks)},
    )


def _hardest(similarity: Tensor) -> Tensor:
    return similarity.clone().fill_diagonal_(-math.inf).amax(dim=1)


def _draw_bounds(curves: dict[str, Tensor], slacks: dict[float, tuple[Tensor, Tensor]]) -> Any:
    figure = new_figure(10.2, 3.9)
    heading(figure, "InfoNCE under its upper bounds", "Random batches of 32, anchor by anchor; m = τ log(N-1).")
    left, middle, right = figure.subplots(1, 3, gridspec_kw={"left": 0.065, "right": 0.985, "bottom": 0.14, "top": 0.79,
                                                             "wspace": 0.26})  # fmt: skip
    order = curves["gap"].argsort()
    gap = curves["gap"][order].numpy()
    for name, values, colour in (
        ("log 2 + MPT/τ", math.log(2) + curves["MPT"] / TAU, UNIFORMITY),
        ("log 2 + DCL+", math.log(2) + curves["DCL+"], NEUTRAL),
        ("InfoNCE", curves["InfoNCE"], ALIGNMENT),
    ):
        some = slice(None, None, max(1, len(gap) // 1500))
        left.scatter(
            gap[some], values[order].numpy()[some], s=4, color=colour, linewidth=0, label=name, rasterized=True
        )
    left.set_xlabel("gap s_pos - hardest s_neg", size=8.5, color=INK)
    left.set_ylabel(f"loss of one anchor (τ = {TAU})", size=8.5, color=INK)
    left.legend(frameon=False, fontsize=8, labelcolor=INK, markerscale=2.5)
    titles = ("slack of InfoNCE ≤ log 2 + DCL+", "slack of DCL+ ≤ MPT/τ")
    greys = ("#101418", "#3d4b58", "#6b7885", "#98a4af", "#c3ccd4")
    for step, axis in enumerate((middle, right)):
        for (tau, pair), colour in zip(slacks.items(), greys, strict=True):
            slack = pair[step].sort().values.numpy()
            axis.plot(
                slack, (np.arange(len(slack)) + 1) / len(slack), color=colour, linewidth=1.5, label=f"τ = {tau:g}"
            )
        axis.set_xlabel(titles[step], size=8.5, color=INK)
        axis.set_xlim(left=-0.02)
    middle.axvline(math.log(2), color=UNIFORMITY, linewidth=0.9, linestyle=":")
    middle.text(math.log(2) - 0.01, 0.03, "log 2", size=8, color=UNIFORMITY, ha="right")
    middle.set_ylabel("share of anchors below", size=8.5, color=INK)
    right.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower right")
    for axis in (left, middle, right):
        frame(axis)
    return figure


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
        "A common lower bound of both uniformities",
        "The uniformity of InfoNCE and L_uniform share a lower bound, minus the mean squared distance of pairs up to "
        "scale and constant, so both push all pairs apart.",
        f"Over {draws} random batches (N = {size}, τ = {tau}, t = {T:g}) both bounds hold (smallest slack {lowest:.1e})"
        f" and both are equalities at the simplex (difference {tight:.1e}), the constant being 1/τ = {1 / tau:g}."
        f" With the printed constant 1/(2τM(N-1)) = {printed:.1e} (M taken as N) the inequality is still true but "
        f"loose by {1 / tau - printed:.3f} everywhere, at the simplex too.",
        lowest > -1e-9 and tight < 1e-9,
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
        "Bounds of InfoNCE with mixed negatives",
        "Negatives mixed of negatives keep the bound of a triplet with margin τ log(n+M); negatives mixed with the "
        "positive have, where a mix is the hardest, that of margin τ log(n+M)/(1-λ), scaled by 1-λ: mixing the "
        "positive in acts as a larger margin. A mix of negatives is never harder than the hardest negative.",
        f"Over {draws} draws (n = {size - 1}, M = {more}) the smallest slack is {lowest['negative with negative']:.2f} "
        f"(negatives mixed) and {lowest['positive with negative']:.2f} (positive mixed in, λ = {lam}, {used} draws "
        f"whose hardest is a mix). A mix of negatives was the hardest in {shares['as it is']:.1%} of the draws; "
        f"re-normalised, as released code has it, in {shares['re-normalised']:.1%}.",
        min(lowest.values()) > 0 and harder["as it is"] == 0,
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
