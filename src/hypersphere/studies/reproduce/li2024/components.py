"""Dissipation, weight and ratio of Li et al. 2024 (Eq. 4), each changed alone, from computed gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.anatomy import Anatomy, dissect
from hypersphere.figures.anatomy import ALIGNMENT, INK, LINE, SOFT, UNIFORMITY, heading, new_figure
from hypersphere.geometry import angle, tangent
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.tangent_plane import ANCHOR, at, draw_arrow, xy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def components(quick: bool = False) -> Finding:
    """Dissipation, weight and ratio, each changed alone, and the direction the anchor takes."""
    panels: list[tuple[str, str, Anatomy]] = []
    negatives = [at(58, 85), at(72, 150), at(66, 215), at(80, 290)]
    for polar, words in ((75, "positive far"), (12, "positive near")):
        panels.append(("dissipation", words, _anatomy("infonce", polar, negatives, temperature=0.1)))
    for tau in (0.5, 0.05):
        panels.append(("weight", f"τ = {tau:g}", _anatomy("dcl", 45, negatives, temperature=tau)))
    for ratio in (0.5, 2.0):
        baseline = _anatomy("paradigm", 45, negatives, margin=2.5, temperature=0.2, value=ratio)
        panels.append(("ratio", f"r = {ratio:g}", baseline))
    rows = [
        {"component": kind, "setting": words,
         "dissipation": float(anatomy.dissipation[0]), "ratio": float(anatomy.ratio[0]),
         **{f"weight share {k + 1}": float(share) for k, share in enumerate(anatomy.share[0, 1 : 1 + len(negatives)])}}
        for kind, words, anatomy in panels
    ]  # fmt: skip
    numbers = [float(anatomy.dissipation[0]) for _, _, anatomy in panels[:2]]
    moved = float((panels[0][2].share[0] - panels[1][2].share[0]).abs().max())
    shares = [float(anatomy.share[0].max()) for _, _, anatomy in panels[2:4]]
    turned = [_to_the_positive(anatomy) for _, _, anatomy in panels[4:]]
    return Finding(
        "Eq. 4: dissipation scales the whole gradient, the weight chooses among negatives, the ratio balances positive "
        "and negatives. The picture is ours, not the paper's Figure 12, which shows the gap after training with and "
        "without dissipation (12a) and whether the distance rises or falls (12c).",
        f"From computed gradients, nothing trained: bringing the positive near lowers InfoNCE's GD from "
        f"{numbers[0]:.2f} to {numbers[1]:.2f} and changes no share of the weights by more than {moved:.1g}; lowering "
        f"τ from 0.5 to 0.05 takes the share of the hardest negative from {shares[0]:.0%} to {shares[1]:.0%}; a ratio "
        f"of 2 instead of 0.5 takes the angle between the step and the way to the positive from {turned[0]:.0f}° to "
        f"{turned[1]:.0f}°.",
        {
            "dissipation scales the gradient and leaves the weights": numbers[0] > numbers[1] and moved < 1e-9,
            "the weight chooses among negatives (here: a lower τ the hardest)": shares[1] > shares[0],
            "the ratio balances (here: a larger one turns the step to the positive)": turned[1] < turned[0],
        },
        "",
        {"components": rows},
        {"components": _draw_components(panels)},
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
    others = torch.cat([at(polar, 20), *negatives])
    return dissect(objective, ANCHOR.expand(len(others), 3), others)


def _to_the_positive(anatomy: Anatomy) -> float:
    """Degrees between the first anchor's step and the direction to its positive."""
    step = -(anatomy.parts()["alignment"] + anatomy.parts()["uniformity"])[0]
    goal = tangent(anatomy.positives, anatomy.anchors)[0]
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
    for index, (kind, words, anatomy) in enumerate(panels):
        scale = {"dissipation": 0.1, "weight": float(words.split()[-1]) if kind == "weight" else 1.0}.get(kind, 0.55)
        _component(axes[index % 2, index // 2], f"{kind}: {words}", anatomy, scale)
    return figure


def _component(axis: Axes, title: str, anatomy: Anatomy, scale: float) -> None:
    from matplotlib.patches import Circle

    axis.add_patch(Circle((0, 0), 1, facecolor="#f6f8fa", edgecolor=LINE, linewidth=1))
    for degrees in (30, 60):
        axis.add_patch(Circle((0, 0), math.sin(math.radians(degrees)), fill=False, edgecolor=LINE, linewidth=0.7))
    size = len(anatomy.anchors)
    gate, share = float(anatomy.dissipation[0]), anatomy.share[0, :size]
    positive = anatomy.positives[0, :2].numpy()
    parts = anatomy.parts()
    pull, push = (-scale * parts[name][0, :2].numpy() for name in ("alignment", "uniformity"))
    for k in range(1, size):
        spot = anatomy.positives[k, :2].numpy()
        axis.plot(*spot, marker="o", markersize=4 + 13 * float(share[k]) ** 0.5, color=UNIFORMITY, zorder=4)
        axis.annotate(
            f"{float(share[k]):.0%}", xy(spot), xytext=(9, 5), textcoords="offset points", size=8, color=UNIFORMITY
        )
        away = -scale * anatomy.coefficients.cross[0, k].item() * spot
        if np.linalg.norm(away) > 0.01:
            draw_arrow(axis, np.zeros(2), away, UNIFORMITY, 0.9)
    axis.plot(*positive, marker="s", markersize=8, color=ALIGNMENT, zorder=4)
    if np.linalg.norm(pull) > 0.02:
        draw_arrow(axis, np.zeros(2), pull, ALIGNMENT, 0.9)
    step = pull + push
    if np.linalg.norm(step) > 0.01:
        draw_arrow(axis, np.zeros(2), step, INK, 2.6)
    axis.plot(0, 0, marker="o", markersize=7, color=INK, zorder=5)
    axis.set_title(f"{title}", size=10, color=INK, pad=2)
    axis.text(
        0.5,
        0.035,
        f"GD = {gate:.2f}   R = {float(anatomy.ratio[0]):g}",
        transform=axis.transAxes,
        ha="center",
        size=8.5,
        color=SOFT,
    )
    axis.set(xlim=(-1.12, 1.12), ylim=(-1.2, 1.08), aspect="equal")
    axis.set_axis_off()
