"""Koromilas et al. 2024: which loss forgets the size of the batch."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from hypersphere.figures.configurations import (
    BatchCurve,
    draw_batch_curves,
)
from hypersphere.geometry import uniform_points, unit
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024.losses import LOSSES, Loss

_log = logging.getLogger("hypersphere.reproduce")
BATCHED = tuple(loss for loss in LOSSES if loss.label not in ("DCL both", "DHEL symmetric"))


def two_views(count: int, dim: int, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """A fixed data set: uniform points and a noisy second view of each."""
    first = uniform_points(count, dim, seed)
    return first, unit(first + noise * uniform_points(count, dim, seed + 1))


def batch_independence(quick: bool = False) -> Finding:
    """The mean of each loss over batches of M from a fixed set of embeddings, minus its value on the whole set."""
    small, large, draws = (6, 32, 20) if quick else (10, 256, 200)
    rows: list[dict[str, Any]] = []
    for which, count, dim in (("all", small, 4), ("sampled", large, 16)):
        _log.info("%d embeddings in %d dimensions: %s batches", count, dim, which)
        views = two_views(count, dim, 0.6, seed=0)
        for loss in BATCHED:
            rows += _over_batches(loss, views, draws if which == "sampled" else None)
    exact = [row for row in rows if row["batches"] == "all" and row["M"] < small]
    kernels = [abs(row["minus_log"]) for row in exact if row["objective"].startswith("KCL")]
    others = {
        row["objective"]: abs(row["minus_log"]) for row in exact if row["M"] == 4 and "KCL" not in row["objective"]
    }
    drawn = [
        row for row in rows if row["batches"] == "sampled" and row["objective"].startswith("KCL") and row["M"] < large
    ]
    away = max(abs(row["difference"]) / row["standard_error"] for row in drawn)
    return Finding(
        claim="KCL's expected loss does not depend on the batch size.",
        measured=f"Over all batches of {small} embeddings every kernel's mean differs from the value on the "
        f"whole set by at most {max(kernels):.1e}. After subtracting log(M-1) (twice for DHEL with both energies) the "
        "others still differ, at M = 4: "
        + ", ".join(f"{name} {value:.3f}" for name, value in others.items())
        + f". Sampled "
        f"from {large} embeddings, KCL is within {away:.1f} standard errors at every M.",
        clauses={
            "the mean over all batches is the value on the whole set": max(kernels) < 1e-12,
            "the mean over sampled batches is, within its error": away < 4.5,
        },
        data={"batches": rows},
        figures={"batch-independence": draw_batch_curves(_curves(rows), (small, large))},
    )


def _over_batches(loss: Loss, views: tuple[Tensor, Tensor], draws: int | None) -> list[dict[str, Any]]:
    """A row for each batch size: all subsets (``draws`` None), or that many drawn ones."""
    objective, (first, second) = loss.create(), views
    count = len(first)
    generator = torch.Generator().manual_seed(0)
    whole, rows = float(objective(first, second)), []
    sizes = range(2, count + 1) if draws is None else [2**k for k in range(2, count.bit_length())]
    for M in sizes:
        if draws is None:
            batches = [torch.tensor(each) for each in combinations(range(count), M)]
        else:
            batches = [torch.randperm(count, generator=generator)[:M] for _ in range(1 if count == M else draws)]
        with torch.no_grad():
            values = [float(objective(first[each], second[each])) for each in batches]
        growth = loss.logarithms * (math.log(M - 1) - math.log(count - 1))
        rows.append(
            {
                "batches": "all" if draws is None else "sampled",
                "set": count,
                "objective": loss.label,
                "M": M,
                "count": len(values),
                "mean": fmean(values),
                "whole": whole,
                "difference": fmean(values) - whole,
                "minus_log": fmean(values) - whole - growth,
                "standard_error": stdev(values) / math.sqrt(len(values)) if draws and len(values) > 1 else 0.0,
            }
        )
    return rows


def _curves(rows: Sequence[dict[str, Any]]) -> list[BatchCurve]:
    curves = []
    for loss in BATCHED:
        for which in ("all", "sampled"):
            own = [row for row in rows if row["objective"] == loss.label and row["batches"] == which]
            points = [
                (row["M"], *(row[what] / loss.scale for what in ("difference", "minus_log", "standard_error")))
                for row in own
            ]
            curves.append(BatchCurve(loss.label + (" ÷ γ" if loss.scale != 1 else ""), which == "sampled", points))
    return curves
