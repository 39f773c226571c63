"""Components taken from gradients beside their formulas: rows, verdict and drawing of Tables 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hypersphere.figures.anatomy import INK, LINE, SOFT, heading, new_figure
from hypersphere.geometry import normalize
from hypersphere.studies.reproduce.items import Finding


def random_views(size: int = 24, dim: int = 12, noise: float = 0.6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Unit rows in every direction, and the same with noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    y = x + noise * torch.randn(size, dim, generator=generator, dtype=torch.float64)
    return normalize(x)[0], normalize(y)[0]


def without_own(matrix: Tensor) -> Tensor:
    """(N, N) -> (N, N-1): the diagonal left out."""
    return matrix[~torch.eye(len(matrix), dtype=torch.bool)].reshape(len(matrix), -1)


def compare(loss: str, component: str, formula: str, measured: Tensor, expected: Tensor) -> dict[str, Any]:
    """One row: means, and the largest difference in proportion to the largest value (of vectors: their lengths)."""
    sizes = [
        torch.linalg.vector_norm(each, dim=1) if component == "gradient" else each for each in (measured, expected)
    ]
    means = [float(each[each.isfinite()].mean()) for each in sizes]
    return {
        "loss": loss,
        "component": component,
        "formula": formula,
        "measured mean": means[0],
        "formula mean": means[1],
        "max relative difference": _apart(measured, expected),
    }


def _apart(measured: Tensor, formula: Tensor) -> float:
    """Largest difference where both have a value, relative to the largest value; inf if only one has."""
    if bool((measured.isnan() != formula.isnan()).any()):
        return math.inf
    known = ~measured.isnan()
    scale = formula[known].abs().max().clamp_min(1e-300)
    return float((measured - formula)[known].abs().max() / scale) if known.any() else 0.0


def conclude(
    item: str,
    which: str,
    title: str,
    rows: list[dict[str, Any]],
    errata: str,
    printed: Sequence[dict[str, Any]] = (),
) -> Finding:
    """``rows`` hold the formulas with their errata corrected; ``printed`` holds the corrected ones as printed."""
    apart = max(row["max relative difference"] for row in rows)
    bad = [f"{row['component']} of {row['loss']}" for row in rows if row["max relative difference"] > 1e-8]
    words = f"; beyond 1e-8: {', '.join(bad)}" if bad else ""
    wrong = [row for row in printed if row["max relative difference"] > 1e-8]
    said = [f"{row['component']} of {row['loss']} by {row['max relative difference']:.2g}" for row in wrong]
    as_printed = f" As printed, off: {', '.join(said)}." if said else " As printed they hold too." if printed else ""
    clauses = {"gradients of this form, with the printed components but for misprints": not bad}
    clauses |= {
        f"{row['component']} of {row['loss']} as printed": row["max relative difference"] <= 1e-8 for row in printed
    }
    return Finding(
        f"{which}: each gradient is GD Σ_j W_ij (n_j - R h'_i) with the printed GD, W and R.",
        f"Components taken from the gradient by dissect, beside the formulas (errata corrected) evaluated on the same "
        "batch: the largest "
        f"relative difference is {apart:.1e}{words}.{as_printed}",
        clauses,
        errata,
        {item: rows, **({f"{item}_as_printed": list(printed)} if printed else {})},
        {item: _draw_table(title, rows)},
        fault=_fault(apart, bad, said),
    )


def _fault(apart: float, bad: Sequence[str], misprinted: Sequence[str]) -> str:
    """The fault where a component differs from the printed one."""
    if bad:
        return (
            f"Not decided: {', '.join(bad)} differ from the corrected formulas too, so the implementation may be wrong."
        )
    if not misprinted:
        return ""
    return (
        f"The claim, by misprints: with the errata corrected every component is that of the gradient to {apart:.1e}, "
        "so the implementation is not at fault, and nothing was made smaller."
    )


def _draw_table(title: str, rows: list[dict[str, Any]]) -> Any:
    line, top = 0.32, 1.3  # inches
    figure = new_figure(9.4, line * len(rows) + top + 0.15)
    height = figure.get_figheight()
    heading(
        figure,
        title,
        "Means over a random batch: measured by dissect, and from the formula (errata corrected).",
    )
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    columns = (0.02, 0.21, 0.31, 0.64, 0.755, 0.87)
    words = ("loss", "", "formula", "measured", "by formula", "largest rel. diff.")
    for x, word in zip(columns, words, strict=True):
        axis.text(x, 1 - (top - 0.3) / height, word, size=8.5, color=SOFT, va="center")
    for index, row in enumerate(rows):
        y = 1 - (top + line * index) / height
        first = index == 0 or rows[index - 1]["loss"] != row["loss"]
        if first:
            axis.plot([0.02, 0.98], [y + line / 2 / height] * 2, color=LINE, linewidth=0.8)
        cells = (
            row["loss"] if first else "", row["component"], row["formula"], f"{row['measured mean']:.4g}",
            f"{row['formula mean']:.4g}", _power(row["max relative difference"]),
        )  # fmt: skip
        for x, cell in zip(columns, cells, strict=True):
            axis.text(x, y, cell, size=9, color=INK, va="center", weight="bold" if x == 0.02 else "normal")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    return figure


def _power(value: float) -> str:
    if value == 0:
        return "0"
    digits, _, exponent = f"{value:.0e}".partition("e")
    return rf"${digits}\cdot10^{{{int(exponent)}}}$"
