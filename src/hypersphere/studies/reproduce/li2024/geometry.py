"""Li et al. 2024, Figure 11: the geometry of Lemma 1, from computed steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from hypersphere.anatomy import ratio_interval
from hypersphere.figures.anatomy import ALIGNMENT, INK, SOFT, UNIFORMITY, heading, new_figure
from hypersphere.geometry import tangent
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.tangent_plane import ANCHOR, at, draw_arrow, xy

STEP = 0.55


def _flat(vector: Tensor) -> Any:
    """(2,) the tangential part of a vector at the anchor."""
    return tangent(vector, ANCHOR)[0, :2].numpy()


def fig11(quick: bool = False) -> Finding:
    """The steps λ(r h'_i - h'_j) of growing r, and the circle within which they bring the anchor closer."""
    positive, negative = at(50, 20), at(65, 75)
    low, high = (float(end) for end in ratio_interval(ANCHOR, positive, negative, STEP))
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
        "An illustration of Lemma 1: a step brings the anchor closer to its positive when it ends in the circle around "
        "the positive through the anchor; the ratio decides where it ends.",
        f"With λ = {STEP} and angles of 50° and 65° the ends of the steps lie on a line along the positive. It enters "
        f"the circle at r = {low:.3f} and leaves it at r = {high:.3f}, as ratio_interval says (distance there equal to "
        f"the one before, up to {at_ends:.0e}).",
        {
            "the ratio decides whether the step ends in the circle, closer than before": right
            == [False, False, True, False, False]
            and at_ends < 1e-12
        },
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
    draw_arrow(axis, np.zeros(2), n, UNIFORMITY, 1.8)
    draw_arrow(axis, np.zeros(2), p, ALIGNMENT, 1.8)
    for row in rows:
        end = np.array([row["x"], row["y"]])
        inside = row["distance"] < row["before"] - 1e-12
        border = abs(row["distance"] - row["before"]) < 1e-9
        draw_arrow(axis, np.zeros(2), end, INK if inside else "#98a4af", 1.5)
        axis.plot(*end, marker="o", markersize=6, color="white" if border else INK if inside else "#98a4af",
                  markeredgecolor=INK, zorder=5)  # fmt: skip
        words = f"r = {row['ratio']:.2f}" + (" (an end)" if border else "")
        side: dict[str, Any] = {"xytext": (6, -13), "ha": "left"}
        if end[0] < p[0] - 0.3:  # at the left: the end beside its circle, the one before it outside
            side = {"xytext": (11, -4), "ha": "left"} if border else {"xytext": (-10, 1), "ha": "right"}
        axis.annotate(words, xy(end), textcoords="offset points", size=8.5, color=INK, **side)
    for words, place, colour, shift in (
        ("anchor $h_i$", np.zeros(2), INK, (-62, -2)),
        ("positive $h'_i$", p, ALIGNMENT, (8, 4)),
        ("negative $h'_j$", n, UNIFORMITY, (-62, 10)),
    ):
        axis.plot(*place, marker="o", markersize=7, color=colour, zorder=6)
        axis.annotate(words, xy(place), xytext=shift, textcoords="offset points", size=10, color=colour, weight="bold")
    axis.annotate("closer to the positive\nthan before", xy(p + np.array([0.0, 0.42])), size=8.5, color=ALIGNMENT)
    axis.set(aspect="equal")
    axis.margins(0.08, 0.03)
    axis.set_axis_off()
    return figure
