"""Li et al. 2024, Figures 11 and 12: the geometry of Lemma 1 and of the three components, from computed steps.

Everything is seen along the anchor: a vector is drawn at its tangential part, so that the picture is the tangent plane
itself and lengths in it are true.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.anatomy import Anatomy, dissect, ratio_interval
from hypersphere.figures.anatomy import ALIGNMENT, INK, LINE, SOFT, UNIFORMITY, heading, new_figure
from hypersphere.geometry import angle, tangent
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP = 0.55
_ANCHOR = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)


def _at(polar: float, around: float) -> Tensor:
    """A unit vector at an angle from the anchor and a direction around it, both in degrees: (1, 3)."""
    p, a = math.radians(polar), math.radians(around)
    return torch.tensor([[math.sin(p) * math.cos(a), math.sin(p) * math.sin(a), math.cos(p)]], dtype=torch.float64)


def _flat(vector: Tensor) -> Any:
    """(2,) the tangential part of a vector at the anchor."""
    return tangent(vector, _ANCHOR)[0, :2].numpy()


def fig11(quick: bool = False) -> Finding:
    """The steps λ(r h'_i - h'_j) of growing r, and the circle within which they bring the anchor closer."""
    positive, negative = _at(50, 20), _at(65, 75)
    low, high = (float(end) for end in ratio_interval(_ANCHOR, positive, negative, STEP))
    p, n = _flat(positive), _flat(negative)
    chosen = (low - 0.45, low, (low + high) / 2, high, high + 0.45)
    rows = []
    for ratio in chosen:
        end = STEP * (ratio * p - n)
        rows.append({"ratio": ratio, "x": end[0], "y": end[1], "distance": float(np.linalg.norm(p - end)),
                     "before": float(np.linalg.norm(p))})  # fmt: skip
    right = [bool(row["distance"] < row["before"] - 1e-12) for row in rows]
    at_ends = max(abs(rows[k]["distance"] - rows[k]["before"]) for k in (1, 3))
    return Finding(
        "The geometry of Lemma 1",
        "A step brings the anchor closer to its positive when the end of the step lies in the circle around the "
        "positive through the anchor; the ratio decides where the end lies.",
        f"With λ = {STEP} and angles of 50° and 65° the ends of the steps lie on a line along the positive. It enters "
        f"the circle at r = {low:.3f} and leaves it at r = {high:.3f}, as ratio_interval says (distance there equal to "
        f"the one before, up to {at_ends:.0e}).",
        right == [False, False, True, False, False] and at_ends < 1e-12,
        "The paper draws and states the lower end only.",
        {"fig11": rows},
        {"fig11": _draw_lemma(p, n, low, high, rows)},
    )


def _draw_lemma(p: Any, n: Any, low: float, high: float, rows: list[dict[str, float]]) -> Any:
    from matplotlib.patches import Circle

    figure = new_figure(6.6, 6.0)
    heading(
        figure,
        "Lemma 1 in the tangent plane at the anchor",
        rf"Steps $λ(r\,h'_i - h'_j)$ with λ = {STEP}, from computed vectors; angles of 50° and 65° with the anchor.",
    )
    axis = figure.add_axes((0.02, 0.0, 0.96, 0.9))
    radius = float(np.linalg.norm(p))
    axis.add_patch(Circle(tuple(p), radius, facecolor="#eaf2f9", edgecolor=ALIGNMENT, linewidth=1.3))
    ends = np.array([STEP * (ratio * p - n) for ratio in (low - 0.9, high + 0.8)])
    axis.plot(ends[:, 0], ends[:, 1], color=SOFT, linewidth=1, linestyle=":")
    _arrow(axis, np.zeros(2), n, UNIFORMITY, 1.8)
    _arrow(axis, np.zeros(2), p, ALIGNMENT, 1.8)
    for row in rows:
        end = np.array([row["x"], row["y"]])
        inside = row["distance"] < row["before"] - 1e-12
        border = abs(row["distance"] - row["before"]) < 1e-9
        _arrow(axis, np.zeros(2), end, INK if inside else "#98a4af", 1.5)
        axis.plot(*end, marker="o", markersize=6, color="white" if border else INK if inside else "#98a4af",
                  markeredgecolor=INK, zorder=5)  # fmt: skip
        words = f"r = {row['ratio']:.2f}" + (" (an end)" if border else "")
        side: dict[str, Any] = {"xytext": (6, -13), "ha": "left"}
        if end[0] < p[0] - 0.3:  # at the left: the end beside its circle, the one before it outside
            side = {"xytext": (11, -4), "ha": "left"} if border else {"xytext": (-10, 1), "ha": "right"}
        axis.annotate(words, _xy(end), textcoords="offset points", size=8.5, color=INK, **side)
    for words, place, colour, shift in (
        ("anchor $h_i$", np.zeros(2), INK, (-62, -2)),
        ("positive $h'_i$", p, ALIGNMENT, (8, 4)),
        ("negative $h'_j$", n, UNIFORMITY, (-62, 10)),
    ):
        axis.plot(*place, marker="o", markersize=7, color=colour, zorder=6)
        axis.annotate(words, _xy(place), xytext=shift, textcoords="offset points", size=10, color=colour, weight="bold")
    axis.annotate("closer to the positive\nthan before", _xy(p + np.array([0.0, 0.42])), size=8.5, color=ALIGNMENT)
    axis.set(aspect="equal")
    axis.margins(0.08, 0.03)
    axis.set_axis_off()
    return figure


def fig12(quick: bool = False) -> Finding:
    """Dissipation, weight and ratio, each changed alone, and the direction the anchor takes."""
    panels: list[tuple[str, str, Anatomy]] = []
    negatives = [_at(58, 85), _at(72, 150), _at(66, 215), _at(80, 290)]
    for polar, words in ((75, "positive far"), (12, "positive near")):
        panels.append(("dissipation", words, _anatomy("infonce", polar, negatives, temperature=0.1)))
    for tau in (0.5, 0.05):
        panels.append(("weight", f"τ = {tau:g}", _anatomy("dcl", 45, negatives, temperature=tau)))
    for ratio in (0.5, 2.0):
        baseline = _anatomy("paradigm", 45, negatives, margin=2.5, temperature=0.2, value=ratio)
        panels.append(("ratio", f"r = {ratio:g}", baseline))
    rows = [
        {"component": kind, "setting": words,
         "dissipation": float(found.dissipation[0]), "ratio": float(found.ratio[0]),
         **{f"weight share {k + 1}": float(share) for k, share in enumerate(found.share[0, 1 : 1 + len(negatives)])}}
        for kind, words, found in panels
    ]  # fmt: skip
    numbers = [float(found.dissipation[0]) for _, _, found in panels[:2]]
    moved = float((panels[0][2].share[0] - panels[1][2].share[0]).abs().max())
    shares = [float(found.share[0].max()) for _, _, found in panels[2:4]]
    turned = [_to_the_positive(found) for _, _, found in panels[4:]]
    return Finding(
        "The three components of a gradient",
        "Dissipation scales the whole gradient, the weight chooses among negatives, the ratio balances positive and "
        "negatives.",
        f"From computed gradients: bringing the positive near lowers InfoNCE's GD from {numbers[0]:.2f} to "
        f"{numbers[1]:.2f} and changes no share of the weights by more than {moved:.1g}; lowering τ from 0.5 to 0.05 "
        f"takes the share of the hardest negative from {shares[0]:.0%} to {shares[1]:.0%}; a ratio of 2 instead of 0.5 "
        f"takes the angle between the step and the way to the positive from {turned[0]:.0f}° to {turned[1]:.0f}°.",
        numbers[0] > numbers[1] and moved < 1e-9 and shares[1] > shares[0] and turned[1] < turned[0],
        "",
        {"fig12": rows},
        {"fig12": _draw_components(panels)},
    )


def _anatomy(name: str, polar: float, negatives: list[Tensor], **settings: Any) -> Anatomy:
    if "value" in settings:
        value = settings.pop("value")
        objective = create_objective(
            "paradigm",
            dissipation={"name": "margin", "margin": settings["margin"]},
            weight={"name": "softmax", "temperature": settings["temperature"]},
            ratio={"name": "constant", "value": value},
        )
    else:
        objective = create_objective(name, **settings)
    others = torch.cat([_at(polar, 20), *negatives])
    return dissect(objective, _ANCHOR.expand(len(others), 3), others)


def _to_the_positive(found: Anatomy) -> float:
    """Degrees between the first anchor's step and the direction in which its positive lies."""
    step = -(found.parts()["alignment"] + found.parts()["uniformity"])[0]
    goal = tangent(found.positives, found.anchors)[0]
    return math.degrees(float(angle(torch.nn.functional.cosine_similarity(step, goal, dim=0))))


def _draw_components(panels: list[tuple[str, str, Anatomy]]) -> Any:
    figure = new_figure(10.4, 7.6)
    heading(
        figure, "Dissipation, weight and ratio, each changed alone",
        "Seen along the anchor. Square: positive; discs: negatives, with their share of the weight.\nBlack: its step, "
        "minus its gradient (times τ where the loss has 1/τ; the ratio's at 0.55). Thin: parts.",
    )  # fmt: skip
    axes = figure.subplots(2, 3, gridspec_kw={"left": 0.01, "right": 0.99, "bottom": 0.02, "top": 0.85, "wspace": 0.03,
                                              "hspace": 0.14})  # fmt: skip
    for place, (kind, words, found) in enumerate(panels):
        scale = {"dissipation": 0.1, "weight": float(words.split()[-1]) if kind == "weight" else 1.0}.get(kind, 0.55)
        _component(axes[place % 2, place // 2], f"{kind}: {words}", found, scale)
    return figure


def _component(axis: Axes, title: str, found: Anatomy, scale: float) -> None:
    from matplotlib.patches import Circle

    axis.add_patch(Circle((0, 0), 1, facecolor="#f6f8fa", edgecolor=LINE, linewidth=1))
    for degrees in (30, 60):
        axis.add_patch(Circle((0, 0), math.sin(math.radians(degrees)), fill=False, edgecolor=LINE, linewidth=0.7))
    size = len(found.anchors)
    gate, share = float(found.dissipation[0]), found.share[0, :size]
    positive = found.positives[0, :2].numpy()
    parts = found.parts()
    pull, push = (-scale * parts[name][0, :2].numpy() for name in ("alignment", "uniformity"))
    for k in range(1, size):
        spot = found.positives[k, :2].numpy()
        axis.plot(*spot, marker="o", markersize=4 + 13 * float(share[k]) ** 0.5, color=UNIFORMITY, zorder=4)
        axis.annotate(
            f"{float(share[k]):.0%}", _xy(spot), xytext=(9, 5), textcoords="offset points", size=8, color=UNIFORMITY
        )
        away = -scale * found.coefficients.cross[0, k].item() * spot
        if np.linalg.norm(away) > 0.01:
            _arrow(axis, np.zeros(2), away, UNIFORMITY, 0.9)
    axis.plot(*positive, marker="s", markersize=8, color=ALIGNMENT, zorder=4)
    if np.linalg.norm(pull) > 0.02:
        _arrow(axis, np.zeros(2), pull, ALIGNMENT, 0.9)
    step = pull + push
    if np.linalg.norm(step) > 0.01:
        _arrow(axis, np.zeros(2), step, INK, 2.6)
    axis.plot(0, 0, marker="o", markersize=7, color=INK, zorder=5)
    axis.set_title(f"{title}", size=10, color=INK, pad=2)
    axis.text(
        0.5,
        0.035,
        f"GD = {gate:.2f}   R = {float(found.ratio[0]):g}",
        transform=axis.transAxes,
        ha="center",
        size=8.5,
        color=SOFT,
    )
    axis.set(xlim=(-1.12, 1.12), ylim=(-1.2, 1.08), aspect="equal")
    axis.set_axis_off()


def _xy(place: Any) -> tuple[float, float]:
    return float(place[0]), float(place[1])


def _arrow(axis: Axes, start: Any, end: Any, colour: str, width: float) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    size = {"mutation_scale": 8 + 3 * width}
    axis.annotate("", end, start, annotation_clip=False, arrowprops={**look, **size}, zorder=4)
