"""Nie et al. 2023, Figures 2 and 4: maps of the length of either part of the gradient."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from hypersphere.figures.maps import HeatMap, Scale, heat_maps
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.norms import TAU, T, edge, measured_norms, norms

COUNTS = (64, 512, 4096, 65536)
_PANELS: list[tuple[str, str, int, float, str]] = [
    *((f"InfoNCE, n = {count}", "infonce", count, TAU, "τ log n") for count in COUNTS),
    ("alignment and uniformity", "align_uniform", 64, 0.0, ""),
    ("DCL, n = 64", "dcl", 64, TAU, ""),
    ("DCL+, n = 64", "dcl_plus", 64, TAU, "τ log n"),
    ("MPT, m = 0.23", "mpt", 64, 1.0, "m"),
    ("MET, m = 0.45", "met", 64, 1.0, "m"),
    ("MAT, m = 0.15π", "mat", 64, 1.0, "m"),
]
_ALONE = (r"$L_\mathrm{align}$, α = 2", rf"$L_\mathrm{{uniform}}$, t = {T:g}")  # its terms, one in either figure


def fig2(quick: bool = False) -> Finding:
    """The alignment part."""
    return _maps("fig2", 0, "alignment", r"$\|\nabla_\mathrm{pos}\|$", quick)


def fig4(quick: bool = False) -> Finding:
    """The uniformity part."""
    return _maps("fig4", 1, "uniformity", r"$\|\nabla_\mathrm{neg}\|$", quick)


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
        shown = _ALONE[part] if name == "align_uniform" else title
        maps.append(HeatMap(shown, values, beyond, note=f"unit: {1 / scale:g}"))
        rows += [
            {"loss": title, "theta_pos": p, "theta_neg": n, "norm": v / scale, "unit": 1 / scale}
            for p, n, v in zip(positive.ravel(), negative.ravel(), values.ravel(), strict=True)
        ]
    apart = _largest_difference(part, 2 if quick else 40, 5000 if quick else 10**6)
    shrinking = [still[title] for title, name, *_ in _PANELS if name == "infonce"]
    growing = all(a > b for a, b in pairwise(shrinking))
    endless = {"alignment and uniformity": "alignment/uniformity", "DCL, n = 64": "DCL"}
    sharp = [title for title, name, *_ in _PANELS if name in ("dcl_plus", "mpt", "met", "mat")]
    title = f"Length of the {word} part of an anchor's gradient"
    note = "Colour: length, in the unit printed in each panel (1/‖g‖ dropped). Line: edge of dissipation."
    drawn = heat_maps(title, maps, side, side, Scale(f"{letter}, in the panel's unit"), columns=5, note=note)
    together = "" if part == 0 else " All negatives stand in one place and are counted together."
    return Finding(
        title,
        f"The {word} part of InfoNCE's gradient vanishes right of cos θ_pos - cos θ_neg = τ log n, a region that "
        "shrinks as n grows; alignment/uniformity and DCL have no such region; DCL+, MPT, MET and MAT have it with a "
        "sharp edge, their lengths being sin θ/τ, sin θ, cos(θ/2) and 1.",
        f"Formulas and the gradients that dissect takes from vectors at the same angles differ by at most {apart:.1e} "
        f"(relative). Where the positive is nearer, the share of the map below 1 % of the unit is "
        f"{', '.join(f'{x:.0%} (n = {n})' for x, n in zip(shrinking, COUNTS, strict=True))} for InfoNCE, "
        f"{', '.join(f'{still[title]:.0%} for {words}' for title, words in endless.items())}; "
        f"{', '.join(f'{still[title]:.0%} for {title}' for title in sharp)}.{together}",
        apart < 1e-9 and growing and not any(still[title] for title in endless) and all(still[t] > 0 for t in sharp),
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
