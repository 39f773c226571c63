"""Li et al. 2024, Figure 4: the ratio of ArcCon and MET over the angles."""

from __future__ import annotations

from hypersphere.anatomy import (
    AngleGrid,
    closed_form,
)
from hypersphere.figures.maps import HeatMap, Scale, heat_maps
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.dissipation import TITLES


def fig4(quick: bool = False) -> Finding:
    """Ratio of ArcCon and MET over the angles."""
    grid = AngleGrid(points=20 if quick else 100)
    positive, negative = grid.means()
    p = positive.repeat_interleave(grid.points)
    n = negative.repeat(grid.points).unsqueeze(1).expand(-1, grid.negatives)
    farther = (positive[:, None] > negative[None, :]).numpy()
    maps, rows, usual = [], [], {}
    for name in ("arccon", "met"):
        form = closed_form(name)(p, n)
        ratio = form.ratio.reshape(grid.points, -1).numpy()
        stopped = (form.dissipation < 0.01).reshape(grid.points, -1).numpy()
        shaded = farther | stopped
        seen = ratio[~shaded]
        usual[name] = (float(((seen >= 1) & (seen <= 2)).mean()), float(seen.min()), float(seen.max()))
        maps.append(HeatMap(TITLES[name], ratio, shaded=shaded))
        rows += [
            {
                "loss": name,
                "theta_pos": float(a),
                "theta_neg": float(b),
                "ratio": ratio[i, j],
                "shaded": bool(shaded[i, j]),
            }
            for i, a in enumerate(positive)
            for j, b in enumerate(negative)
        ]
    drawn = heat_maps(
        "Ratio of pull to push", maps, positive.numpy(), negative.numpy(), Scale("ratio R", (1, 2.5)), columns=2,
        note="Hatched: positive farther than negatives, or dissipated.",
    )  # fmt: skip
    listed = "; ".join(
        f"{TITLES[k].split(',')[0]} {share:.0%} (from {low:.2f} to {high:.2f})"
        for k, (share, low, high) in usual.items()
    )
    return Finding(
        "Where the gradient is not dissipated and the positive is the nearer one, the ratios of ArcCon and MET are "
        "mostly between 1 and 2.",
        f"Share of the unshaded cells with a ratio between 1 and 2: {listed}.",
        {f"mostly between 1 and 2: {TITLES[name].split(',')[0]}": share > 0.5 for name, (share, _, _) in usual.items()},
        "The caption speaks of three ratios; two are shown.",
        {"fig4": rows},
        {"fig4": drawn},
    )
