"""Nie et al. 2023, Figures 2 and 4: maps of the length of the alignment part and of one negative's part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hypersphere.figures.maps import HeatMap, Scale, heat_maps
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.norms import TAU, T, edge, measured_norms, norms

COUNTS = (64, 512, 4096, 65536)


@dataclass(frozen=True)
class Panel:
    """One map: a loss and its number of negatives; whether it has an edge beyond which its gradient dissipates."""

    title: str
    loss: str
    count: int = 64
    dissipates: bool = True

    def unit(self, part: int) -> float:
        """The length that is drawn as 1: the formula's value where sine and gate are 1."""
        if self.loss == "align_uniform":
            return 2.0 if part == 0 else 2 * T / (self.count * (self.count + 1))
        if self.loss in ("mpt", "met", "mat"):
            return 1.0
        return 1 / TAU if part == 0 else 1 / (TAU * self.count)


PANELS = (
    *(Panel(f"InfoNCE, n = {count}", "infonce", count) for count in COUNTS),
    Panel("alignment and uniformity", "align_uniform", dissipates=False),
    Panel("DCL, n = 64", "dcl", dissipates=False),
    Panel("DCL+, n = 64", "dcl_plus"),
    Panel("MPT, m = 0.23", "mpt"),
    Panel("MET, m = 0.45", "met"),
    Panel("MAT, m = 0.15π", "mat"),
)
_TERM = (r"$L_\mathrm{align}$, α = 2", rf"$L_\mathrm{{uniform}}$, t = {T:g}, n = 64")  # each figure shows one of them

_WORDS = (("the alignment part", r"\|\nabla_\mathrm{pos}\|"), ("one negative's part", r"\|\nabla_\mathrm{neg}\|"))


def fig2(quick: bool = False) -> Finding:
    """The alignment part."""
    return _maps("fig2", 0, quick)


def fig4(quick: bool = False) -> Finding:
    """The part of one negative."""
    return _maps("fig4", 1, quick)


def _maps(item: str, part: int, quick: bool) -> Finding:
    side = np.linspace(0, math.pi, 31 if quick else 91)
    negative, positive = np.meshgrid(side, side)
    # The region where the positive is nearer, without the border, where sin θ vanishes for every loss.
    nearer = (positive < negative) & (positive > 0.02) & (negative < math.pi - 0.02)
    maps, rows = [], []
    still: dict[str, float] = {}
    for panel in PANELS:
        unit = panel.unit(part)
        values = norms(panel.loss, positive, negative, panel.count)[part] / unit
        beyond = edge(panel.loss, positive, negative, panel.count) if panel.dissipates else None
        still[panel.title] = float((values < 0.01)[nearer].mean())
        shown = _TERM[part] if panel.loss == "align_uniform" else panel.title
        maps.append(HeatMap(shown, values, beyond, note=f"unit: {unit:.4g}"))
        rows += [
            {"loss": panel.title, "theta_pos": p, "theta_neg": n, "norm": v * unit, "unit": unit}
            for p, n, v in zip(positive.ravel(), negative.ravel(), values.ravel(), strict=True)
        ]
    word, letter = _WORDS[part]
    note = "Colour: length, in the unit printed in each panel (1/‖g‖ dropped). Line: edge of dissipation."
    drawn = heat_maps(
        f"Length of {word} of an anchor's gradient", maps, side, side, Scale(f"${letter}$, in the panel's unit"),
        columns=5, note=note,
    )  # fmt: skip
    return _judged(item, part, still, _compared(part, quick), rows, drawn)


def _judged(
    item: str, part: int, still: dict[str, float], compared: dict[str, float], rows: list[dict[str, Any]], drawn: Any
) -> Finding:
    """``still``: the share of each map without gradient. ``compared``: each panel's largest difference from dissect."""
    word, _ = _WORDS[part]
    infonce = [still[panel.title] for panel in PANELS if panel.loss == "infonce"]
    endless = [panel.title for panel in PANELS if not panel.dissipates]
    sharp = [panel.title for panel in PANELS if panel.dissipates and panel.loss != "infonce"]
    apart, term = max(compared.values()), "L_align" if part == 0 else "L_uniform"
    named = {title: term if title == "alignment and uniformity" else title for title in still}
    left_out = [panel.title for panel in PANELS if panel.title not in compared]
    lengths = "sin θ/τ, sin θ, cos(θ/2) and 1" + ("" if part == 0 else " (DCL+: divided by n; the others: the hardest)")
    clauses = {
        f"the lengths are those of the gradient, for DCL+, MPT, MET and MAT {lengths}": apart < 1e-9,
        "InfoNCE's region without gradient shrinks as n grows": all(a > b for a, b in pairwise(infonce)),
        f"{term} and DCL have no such region": not any(still[title] for title in endless),
        "DCL+, MPT, MET and MAT have one": all(still[title] > 0 for title in sharp),
    }
    return Finding(
        f"Maps of the length of {word} of the gradient, all negatives at one angle. InfoNCE's vanishes right of "
        f"cos θ_pos - cos θ_neg = τ log n, a region that shrinks as n grows; {term} and DCL have no such region; DCL+, "
        "MPT, MET and MAT have one with a sharp edge.",
        f"In {len(compared)} of {len(PANELS)} panels ({term} among them) the formula and the gradient that dissect "
        f"takes from vectors at the same angles differ by at most {apart:.1e} (relative)"
        + (f"; not compared in this version: {', '.join(left_out)}" if left_out else "")
        + ". Where the positive is nearer, the share of the map below 1 % of the unit is "
        f"{', '.join(f'{share:.0%} (n = {n})' for share, n in zip(infonce, COUNTS, strict=True))} for InfoNCE, "
        f"{', '.join(f'{still[title]:.0%} for {named[title]}' for title in endless + sharp)}.",
        clauses,
        "E2: the printed norm of DCL+ has sin θ_ij' in the alignment part where sin θ_ii' is meant, Eq. 20 to 22 have "
        "signs of the gate reversed; corrected here. Counts above 64 and the panels' parameters are not known to us: "
        f"τ = {TAU}, t = {T:g}, m as in the titles are our choice.",
        {"maps": rows},
        {item: drawn},
    )


def _compared(part: int, quick: bool) -> dict[str, float]:
    """Each panel's largest difference from dissect at random angles, relative to the length; quick: fewer negatives."""
    random = np.random.default_rng(0)
    largest = {}
    for panel in PANELS:
        if quick and panel.count > 5000:
            continue
        draws = 2 if quick or panel.count > 10_000 else 40
        apart = 0.0
        for positive, negative in random.uniform(0.1, 3.0, (draws, 2)):
            formula = float(norms(panel.loss, positive, negative, panel.count)[part])
            measured = measured_norms(panel.loss, positive, negative, panel.count)[part]
            apart = max(apart, abs(formula - measured) / max(abs(formula), 1e-6 * panel.unit(part)))
        largest[panel.title] = apart
    return largest
