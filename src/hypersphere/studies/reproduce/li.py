"""Li et al. 2024, what needs no training: Tables 1 and 2, the simulated angles of Figures 2, 3, 4 and 10, Lemma 1."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from math import pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.anatomy import (
    Anatomy,
    AngleGrid,
    Components,
    closed_form,
    dissect,
    hardest_share,
    ratio_interval,
    simulate,
)
from hypersphere.anatomy.simulation import simulate_rows
from hypersphere.figures.anatomy import (
    ALIGNMENT,
    INK,
    SOFT,
    UNIFORMITY,
    HeatMap,
    angle_axis,
    frame,
    heading,
    heat_maps,
    new_figure,
)
from hypersphere.geometry import angle, chord, normalize, tangent
from hypersphere.objectives import create_objective
from hypersphere.studies.reproduce.items import Finding

_log = logging.getLogger("hypersphere.reproduce")
TITLES = {"infonce": "InfoNCE, τ = 0.05", "arccon": "ArcCon, u = 10°", "mpt": "MPT, m = 0.23", "met": "MET, m = 0.45"}
TEMPERATURES = (0.3, 0.1, 0.05, 0.03, 0.01, 0.005)
# (μ_pos, μ_neg) in multiples of π: mean GD of InfoNCE, ArcCon, MPT, MET in an independent simulation of this set-up.
REFERENCE = {
    (1 / 20, 1 / 20): (0.99, 1.00, 1, 1),
    (1 / 20, 1 / 4): (0.51, 0.70, 1, 0.92),
    (1 / 20, 1 / 3): (0.03, 0.06, 0.05, 0.01),
    (1 / 6, 1 / 4): (0.91, 0.99, 1, 1),
    (1 / 6, 1 / 3): (0.25, 0.68, 0.98, 1),
    (1 / 6, 0.4): (0.01, 0.08, 0.02, 0.56),
    (1 / 6, 1 / 2): (0, 0, 0, 0),
    (1 / 4, 1 / 2): (0.00, 0.01, 0.00, 0.48),
    (1 / 3, 1 / 2): (0.06, 0.47, 0.40, 1),
}


def _views(size: int = 24, dim: int = 12, noise: float = 0.6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    y = x + noise * torch.randn(size, dim, generator=generator, dtype=torch.float64)
    return normalize(x)[0], normalize(y)[0]


def _apart(measured: Tensor, formula: Tensor) -> float:
    """Largest difference where both say something, relative to the largest value; inf if only one does."""
    if bool((measured.isnan() != formula.isnan()).any()):
        return math.inf
    known = ~measured.isnan()
    scale = formula[known].abs().max().clamp_min(1e-300)
    return float((measured - formula)[known].abs().max() / scale) if known.any() else 0.0


def _row(loss: str, component: str, printed: str, measured: Tensor, formula: Tensor) -> dict[str, Any]:
    known = measured[measured.isfinite()]
    return {
        "loss": loss,
        "component": component,
        "formula": printed,
        "measured mean": float(known.mean()),
        "formula mean": float(formula[formula.isfinite()].mean()),
        "max relative difference": _apart(measured, formula),
    }


def table1(quick: bool = False) -> Finding:
    """GD, W, R of InfoNCE, ArcCon, MPT and MET."""
    z1, z2 = _views(16 if quick else 128)
    theta = angle(z1 @ z2.T)
    size = len(z1)
    off = ~torch.eye(size, dtype=torch.bool)
    positive, negative = theta.diagonal(), theta[off].reshape(size, size - 1)
    printed = {
        "infonce": ("1/(1 + e^{cos θ_p/τ}/Σ e^{cos θ_n/τ})", "softmax(cos θ_n/τ)/τ", "1"),
        "arccon": ("1/(1 + e^{cos(θ_p+u)/τ}/Σ e^{cos θ_n/τ})", "softmax(cos θ_n/τ)/τ", "sin(θ_p+u)/sin θ_p"),
        "mpt": ("1[cos θ_p - max cos θ_n < m]", "1 on the nearest", "1"),
        "met": ("1[min d_n - d_p < m]", "1/d_n on the nearest", "d_n/d_p"),
    }
    rows = []
    for name, formulas in printed.items():
        found = dissect(create_objective(name), z1, z2)
        form = closed_form(name)(positive, negative)
        # W and R cannot be measured where nothing moves.
        stopped = found.dissipation == 0
        weight = found.weight[:, :size][off].reshape(size, size - 1)
        rows.append(_row(name, "GD", formulas[0], found.dissipation, form.dissipation))
        rows.append(_row(name, "W", formulas[1], weight[~stopped], form.weight[~stopped]))
        rows.append(_row(name, "R", formulas[2], found.ratio, form.ratio.masked_fill(stopped, math.nan)))
    return _table("Components of four contrastive losses", "Table 1", rows, "E1: the triplets' distance to negatives "
                  "is a minimum, printed as a maximum. E9: the sign in MET's indicator is reversed in Appendix D.1.",
                  "table1")  # fmt: skip


def table2(quick: bool = False) -> Finding:
    """GD, W, R of the non-contrastive losses, as they are and modified."""
    z1, z2 = _views(12 if quick else 48)
    size, dim = z1.shape
    same, cross = z1 @ z1.T, z1 @ z2.T
    eye = torch.eye(size, dtype=torch.bool)
    rows: list[dict[str, Any]] = []

    def add(
        loss: str, found: Anatomy, weight: Tensor, ratio: Tensor, words: tuple[str, str], gate: Tensor | None = None
    ) -> None:
        moving = torch.ones(size, dtype=torch.bool) if gate is None else gate
        rows.append(
            _row(
                loss, "GD", "1" if gate is None else "d_i = 1[s_ii - max s_ik < m]", found.dissipation, moving.double()
            )
        )
        measured = found.weight[:, size : 2 * size]
        rows.append(_row(loss, "W", words[0], measured[moving], weight.masked_fill(eye, 0)[moving]))
        rows.append(_row(loss, "R", words[1], found.ratio, ratio.masked_fill(~moving, math.nan)))

    power = torch.exp(2 * same).masked_fill(eye, 0)
    half = power.sum() / 2
    add("align + MHE", dissect(create_objective("mhe", weight=10.0), z1, z2, scope="batch"), 20 * power / half,
        half / (10 * size * power.sum(1)),
        ("2νe^{2a_ij}/Σ_{k<l}e^{2a_kl}", "Σ_{k<l}e^{2a_kl}/(νNΣ_k e^{2a_ik})"))  # fmt: skip
    nearest = same.masked_fill(eye, -2).max(1)
    place = torch.zeros_like(same).scatter(1, nearest.indices[:, None], 1.0)
    near = chord(nearest.values)
    sums = dissect(create_objective("mhs", weight=1.0), z1, z2)
    # The table takes the mean of the alignment and the sum of the separation; ours is the mean of both.
    add("align + MHS", sums, place / near[:, None], 2 * near, ("ν/‖h_i-h_j‖ on the nearest", "2‖h_i-h_j‖/ν (mean)"))
    rows += _barlow_rows(z1, z2, eye, 30.0)
    inner = same.masked_fill(eye, 0)
    scale = dim * (size - 1) ** 2

    def surrogate(x: Tensor, y: Tensor) -> Tensor:
        return (2 - 2 * (x * y).sum(1)).mean() + (x @ x.T).pow(2).sum() / scale

    add("VICReg (surrogate)", dissect(surrogate, z1, z2, most_anchors=size), 4 * inner / scale,
        scale / (2 * size * inner.sum(1)), ("4ν a_ij/(D(N-1)²)", "D(N-1)²/(2NνΣ_k a_ik)"))  # fmt: skip
    gate = cross.diagonal() - cross.masked_fill(eye, -2).amax(1) < 0.3
    soft = {"same": torch.exp(same / 0.05).masked_fill(eye, 0), "cross": torch.exp(cross / 0.05).masked_fill(eye, 0)}
    modified = {
        "mmhe": (soft["same"] / (0.05 * soft["same"].sum() / 2), 1.75, "e^{a_ij/τ}/(τΣ_{k<l}e^{a_kl/τ})"),
        "mmhs": (place / near[:, None], 1.75, "1/‖h_i-h_j‖ on the nearest"),
        "mbarlow": (soft["cross"] / soft["cross"].sum(), 1.5, "e^{s_ij/τ}/Σ_{k≠l}e^{s_kl/τ}"),
        "mvicreg": (soft["same"] / soft["same"].sum(), 1.5, "e^{a_ij/τ}/Σ_{k≠l}e^{a_kl/τ}"),
    }
    for name, (weight, ratio, words) in modified.items():
        found = dissect(create_objective(name, views="anchor"), z1, z2)
        add(f"{name} (all stages)", found, weight, torch.full((size,), ratio, dtype=weight.dtype), (words, "r"), gate)
    return _table("Components of the other losses, original and modified", "Table 2", rows, "E4 and E5: Barlow's C and "
                  "weight need both views; E7: minimum for maximum in mMHS. Barlow's ratio is a matrix, so the whole "
                  "gradient is compared. VICReg's row is the gradient of alignment plus the full covariance "
                  "penalty of unit rows, a surrogate for VICReg itself, and is measured on that.",
                  "table2")  # fmt: skip


def _barlow_rows(z1: Tensor, z2: Tensor, eye: Tensor, weight: float) -> list[dict[str, Any]]:
    """Its ratio is a matrix and its weights depend on the positive, so GD and W are compared as their product."""
    size = len(z1)
    loss = create_objective("mbarlow", stage="original", views="anchor", weight=weight)
    found = dissect(loss, z1, z2)
    push = 2 * weight * (z2 @ z2.T).masked_fill(eye, 0) / size**2
    features = 1 - (1 - weight) * (z1 * z2).mean(0)  # A = diag
    x = z1.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(x, z2), [x])
    whole = push @ z1 - 2 / size * features * z2
    return [
        _row("Barlow (unit rows)", "GD W", "2ν b_ij/N²", found.coefficients.same, push),
        _row(
            "Barlow (unit rows)",
            "all",
            "Σ_j W_ij (h_j - R h'_i), R = N A/(νΣ_k b_ik)",
            tangent(slope, z1),
            tangent(whole, z1),
        ),
    ]


def _table(title: str, which: str, rows: list[dict[str, Any]], errata: str, item: str) -> Finding:
    apart = max(row["max relative difference"] for row in rows)
    bad = [f"{row['component']} of {row['loss']}" for row in rows if row["max relative difference"] > 1e-8]
    words = f"; beyond 1e-8: {', '.join(bad)}" if bad else ""
    return Finding(
        title,
        f"{which}: each gradient is GD Σ_j W_ij (n_j - R h'_i) with the printed GD, W and R.",
        f"Components taken from the gradient by dissect, beside the formulas evaluated on the same batch: the largest "
        f"relative difference is {apart:.1e}{words}.",
        not bad,
        errata,
        {item: rows},
        {item: _draw_table(title, rows)},
    )


def _draw_table(title: str, rows: list[dict[str, Any]]) -> Any:
    figure = new_figure(9.4, 0.27 * len(rows) + 1.5)
    height = figure.get_figheight()
    heading(figure, title, "Measured by dissect on a random batch, beside the formula (errata corrected).")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    columns = (0.02, 0.20, 0.25, 0.66, 0.77, 0.88)
    words = ("loss", "", "formula", "measured", "formula", "largest rel. diff.")
    for x, word in zip(columns, words, strict=True):
        axis.text(x, 1 - 1.0 / height, word, size=8.5, color=SOFT, va="center")
    for place, row in enumerate(rows):
        y = 1 - (1.27 + 0.27 * place) / height
        first = place == 0 or rows[place - 1]["loss"] != row["loss"]
        if first:
            axis.plot([0.02, 0.98], [y + 0.135 / height] * 2, color="#dde3e8", linewidth=0.8)
        cells = (
            row["loss"] if first else "", row["component"], row["formula"], f"{row['measured mean']:.4g}",
            f"{row['formula mean']:.4g}", f"{row['max relative difference']:.0e}",
        )  # fmt: skip
        for x, cell in zip(columns, cells, strict=True):
            axis.text(x, y, cell, size=8.5, color=INK, va="center", weight="bold" if x == 0.02 else "normal")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    return figure


def _grid(quick: bool) -> AngleGrid:
    return AngleGrid(points=12, batches=20) if quick else AngleGrid()


def _dissipation_maps(names: tuple[str, ...], quick: bool) -> tuple[AngleGrid, dict[str, Any]]:
    grid = _grid(quick)
    found = {}
    for name in names:
        found[name] = simulate(name, grid, progress=partial(_log.info, "%s: row %d of %d", name)).numpy()
    return grid, found


def reference_differences(names: tuple[str, ...], batches: int) -> dict[tuple[float, float], list[float]]:
    """Mean GD at the reference points minus the reference."""
    order = tuple(TITLES)
    found: dict[tuple[float, float], list[float]] = {}
    for (positive, negative), known in REFERENCE.items():
        spot = AngleGrid((positive * pi,) * 2, (negative * pi,) * 2, points=1, batches=batches, seed=1)
        found[positive, negative] = [simulate(n, spot).item() - known[order.index(n)] for n in names]
    return found


def fig2(quick: bool = False) -> Finding:
    return _dissipation_figure("fig2", ("infonce", "arccon", "mpt", "met"), quick)


def fig10(quick: bool = False) -> Finding:
    return _dissipation_figure("fig10", ("infonce", "mpt"), quick)


def _dissipation_figure(item: str, names: tuple[str, ...], quick: bool) -> Finding:
    grid, found = _dissipation_maps(names, quick)
    positive, negative = (means.numpy() for means in grid.means())
    maps = [HeatMap(TITLES[name], values, values - 0.5) for name, values in found.items()]
    note = f"{grid.batches} batches of 1 positive and {grid.negatives} negatives at each point; line: GD = 1/2."
    drawn = heat_maps("Mean gradient dissipation", maps, positive, negative, "mean GD", ("μ", "μ"), note=note)
    batches = 500 if quick else 4000
    apart = max(abs(each) for row in reference_differences(names, batches).values() for each in row)
    far = negative[None, :] - positive[:, None] > pi / 4
    near = np.abs(negative[None, :] - positive[:, None]) < 0.05
    stopped = {name: float(values[far].mean()) for name, values in found.items()}
    diagonal = {name: float(values[near].mean()) for name, values in found.items()}
    listed = ", ".join(f"{TITLES[n].split(',')[0]} {diagonal[n]:.2f} and {stopped[n]:.3f}" for n in names)
    rows = [
        {"loss": name, "mu_pos": p, "mu_neg": n, "mean GD": values[i, j]}
        for name, values in found.items()
        for i, p in enumerate(positive)
        for j, n in enumerate(negative)
    ]
    # Four standard errors of a mean of values within [0, 1], and the reference's two decimals.
    allowed = 0.005 + 4 * 0.5 * math.sqrt(1 / batches + 1 / 4000)
    return Finding(
        "Mean gradient dissipation over the angles",
        "GD is 1 while the negatives are about as near as the positive and falls fast to 0 as they move away.",
        f"Mean GD on the diagonal, and where the negatives are more than π/4 farther: {listed}. At nine reference "
        f"points an independent simulation of this set-up differs by at most {apart:.3f} (allowed {allowed:.3f}).",
        apart < allowed and min(diagonal.values()) > 0.9 and max(stopped.values()) < 0.2,
        "E9: Appendix B names the wrong figure for InfoNCE and MPT; Figure 10 is the one." if item == "fig10" else "",
        {item: rows},
        {item: drawn},
    )


def _hardest_if_moving(components: Components) -> Tensor:
    return hardest_share(components) * (components.dissipation >= 0.01)


def _moves(components: Components) -> Tensor:
    return (components.dissipation >= 0.01).to(components.dissipation)


def fig3(quick: bool = False) -> Finding:
    """Share of the hardest negative in the weight, as the text has it and as the released program draws it."""
    points, batches = (12, 50) if quick else (100, 1000)
    text = AngleGrid((pi / 6, pi / 6), points=points, batches=batches)
    code = AngleGrid((0.5, 0.5), points=points, batches=batches)
    plain: dict[float, Any] = {}
    released: dict[float, Any] = {}
    for tau in TEMPERATURES:
        _log.info("τ = %g", tau)
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
    takes_over = {tau: float(plain[tau].max()) > 0.5 for tau in TEMPERATURES}
    return Finding(
        "Share of the hardest negative in the weight",
        "As the negatives move away the hardest one takes over the weight, whatever the temperature in the figure.",
        f"Unfiltered, with τ = 0.05 its share peaks at {plain[0.05].max():.2f} (μ_neg = {peak:.2f}π) and falls to "
        f"{plain[0.05][-1]:.3f} at π; it passes one half only for τ = "
        f"{', '.join(f'{tau:g}' for tau, yes in takes_over.items() if yes) or 'none'}. As released (batches with GD "
        f"≥ 0.01 only, and 1 where none is left) it reaches 1 at {jump:.2f}π for τ = 0.05: the rise to 1 is the fill "
        "value, not the weight.",
        all(takes_over.values()),
        "The text says μ_pos = π/6 and no filter; the released program has μ_pos = 0.5, the filter and the fill value.",
        {"fig3": rows},
        {"fig3": _draw_shares(means, plain, released)},
    )


def _draw_shares(means: Any, plain: dict[float, Any], released: dict[float, Any]) -> Any:
    figure = new_figure(8.8, 4.0)
    heading(figure, "Share of the hardest negative in the weight of InfoNCE", "Mean over batches with 127 negatives.")
    axes = figure.subplots(1, 2, sharey=True, gridspec_kw={"left": 0.075, "right": 0.86, "bottom": 0.14, "top": 0.78,
                                                          "wspace": 0.1})  # fmt: skip
    greys = ("#c3ccd4", "#98a4af", ALIGNMENT, "#6b7885", "#3d4b58", "#101418")
    dashes: tuple[Any, ...] = ((0, (1, 1)), (0, (4, 1.5)), "-", (0, (6, 2, 1, 2)), "--", "-")
    titles = ("unfiltered, μ_pos = π/6 (as the text says)", "as released: GD ≥ 0.01 only, else 1; μ_pos = 0.5")
    for axis, curves, title in zip(axes, (plain, released), titles, strict=True):
        for (tau, values), colour, dash in zip(curves.items(), greys, dashes, strict=True):
            axis.plot(means, values, color=colour, linestyle=dash, linewidth=1.6, label=f"τ = {tau:g}")
        axis.set_title(title, size=9, color=INK, loc="left")
        axis.set_xlabel("μ of the negatives", size=8.5, color=INK)
        axis.set_ylim(0, 1.04)
        frame(axis)
        angle_axis(axis.xaxis, (means[0], means[-1]))
    axes[0].set_ylabel("share of the hardest", size=8.5, color=INK)
    axes[1].legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


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
        "Ratio of pull to push", maps, positive.numpy(), negative.numpy(), "ratio R", limits=(1, 2.5), columns=2,
        note="Hatched: positive farther than negatives, or dissipated. Colour ends at 2.5.",
    )  # fmt: skip
    listed = "; ".join(
        f"{TITLES[k].split(',')[0]} {share:.0%} (from {low:.2f} to {high:.2f})"
        for k, (share, low, high) in usual.items()
    )
    return Finding(
        "Ratio over the angles",
        "Where the gradient is not dissipated and the positive is the nearer one, the ratios of ArcCon and MET are "
        "mostly between 1 and 2.",
        f"Share of the unshaded cells with a ratio between 1 and 2: {listed}.",
        all(share > 0.5 for share, _, _ in usual.values()),
        "The caption speaks of three ratios; two are shown.",
        {"fig4": rows},
        {"fig4": drawn},
    )


def lemma1(quick: bool = False) -> Finding:
    """The interval of Lemma 1 against the step itself, in the tangent plane and on the sphere."""
    draws = 400 if quick else 20000
    generator = torch.Generator().manual_seed(0)
    rows = []
    mismatches = checked = 0
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
        "Which ratios bring an anchor closer to its positive",
        "Lemma 1: the ratio must be above 1/λ + k cos α - sqrt(1/λ² - k² sin² α), k = sin θ_neg/sin θ_pos, for a step "
        "to bring the anchor closer to its positive.",
        f"In the tangent plane the interval and the step itself disagree in {mismatches} of {checked} draws: the lower "
        "end is right, but not enough, because beyond an upper end (the same with + before the root) the anchor "
        f"overshoots. No ratio works in {listed} of the draws at λ = 0.1 and in up to {large:.0%} at larger steps. "
        "On the sphere itself, the moved anchor scaled back to length 1, the lower end gives the right verdict for "
        f"{sphere:.1%} of ratios within 1 of it at λ = 0.05, while {over:.0%} of those above the upper end come closer "
        "all the same: the upper end is one of the tangent plane.",
        mismatches == 0,
        "The paper states the lower end only; the upper end and the case without solution are added here.",
        {"lemma1": rows},
        {"lemma1": _draw_lemma(rows)},
    )  # fmt: skip


def _agree_near(h: Tensor, y: Tensor, n: Tensor, low: Tensor, step: float, beside: Tensor) -> Tensor:
    """Whether the lower end tells, for ratios within 1 of it, if the anchor scaled back to length 1 came closer."""
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
    for axis, (title, value) in zip(axes, what, strict=True):
        for dim, (colour, marker, line) in looks.items():
            chosen = [row for row in rows if row["dim"] == dim]
            steps = [row["step"] for row in chosen]
            style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
            axis.plot(steps, [value(row) for row in chosen], label=f"D = {dim}", **style)
            if "ends" in title or "upper" in title:
                axis.plot(steps, [row["median upper end"] for row in chosen], **style)
        axis.set_xscale("log")
        axis.set_title(title, size=9, color=INK, loc="left")
        axis.set_xlabel("step λ", size=8.5, color=INK)
        frame(axis)
    axes[0].legend(frameon=False, fontsize=8.5, labelcolor=INK)
    axes[1].set_yscale("symlog", linthresh=1)
    axes[1].set_ylim(-0.3, 60)
    axes[2].set_ylim(0, 1.03)
    return figure
