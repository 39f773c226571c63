"""The two views a run ends with, in a few numbers: cosines, hardest negatives by temperature, Lemma 1's lower end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy.lemma import ratio_interval
from hypersphere.diagnostics import effective_rank
from hypersphere.diagnostics.uniform import UniformCosine
from hypersphere.geometry import unit

BINS = 40  # of a histogram of cosines, -1 to 1
TEMPERATURES = (0.005, 0.01, 0.03, 0.05, 0.1, 0.3, 1.0, 3.0)
STEPS = (0.01, 0.1, 0.5, 1.0)  # λ of Lemma 1
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ROWS = 128  # of a batch: as many anchors as Li et al. 2024 measure at a time


def views_of(path: Path) -> dict[str, Any]:
    """Statistics of the views in a run's embeddings.safetensors, in batches of 128; empty if there are none.

    positive, negative: histograms of the cosines of positive and of all negative pairs (shares of 40 bins).
    hardest: by temperature, the mean share of the hardest negative in a softmax over the negatives.
    lemma1: by step λ, quantiles of the smallest ratio that brings an anchor closer to its positive when it is pushed
        from its hardest negative (Li et al. 2024, Lemma 1), and the share of anchors for which there is one.
    wasserstein, effective_rank: of all rows of the first view.
    """
    from safetensors.torch import load_file

    if not path.is_file():
        return {}
    both = load_file(path)
    return summary(both["z1"], both["z2"])


def summary(z1: Tensor, z2: Tensor) -> dict[str, Any]:
    """``views_of`` for the views themselves (N, D), raw rows."""
    if not (z1.isfinite().all() and z2.isfinite().all()):
        return {}
    x, y = unit(z1.double()), unit(z2.double())
    parts = [(a, b) for a, b in zip(x.split(ROWS), y.split(ROWS), strict=True) if len(a) > 1]
    if not parts:
        return {}
    matrices = [a @ b.T for a, b in parts]
    positive = torch.cat([cosines.diagonal() for cosines in matrices])
    negatives = [cosines[~torch.eye(len(cosines), dtype=torch.bool)].view(len(cosines), -1) for cosines in matrices]
    return {
        "positive": _histogram(positive),
        "negative": _histogram(torch.cat([each.flatten() for each in negatives])),
        "hardest": {f"{tau:g}": _mean([_hardest(each, tau) for each in negatives]) for tau in TEMPERATURES},
        "lemma1": {f"{step:g}": _lower_end(parts, step) for step in STEPS},
        "wasserstein": _wasserstein(x),
        "effective_rank": round(effective_rank(x), 4),
    }


def _wasserstein(x: Tensor) -> float:
    """Distance from the first view's cosines to those of uniform rows, as Koromilas et al. 2024 measure it."""
    rows, columns = torch.triu_indices(len(x), len(x), offset=1)
    return round(UniformCosine(x.shape[1]).wasserstein((x @ x.T)[rows, columns]), 5)


def _hardest(negatives: Tensor, temperature: float) -> Tensor:
    return torch.softmax(negatives / temperature, dim=1).max(dim=1).values


def _mean(parts: list[Tensor]) -> float:
    return round(torch.cat(parts).mean().item(), 5)


def _histogram(cosines: Tensor) -> list[float]:
    counts = torch.histc(cosines.clamp(-1, 1).float(), BINS, -1.0, 1.0)
    return [round(share, 5) for share in (counts / counts.sum()).tolist()]


def _lower_end(parts: list[tuple[Tensor, Tensor]], step: float) -> dict[str, Any]:
    """Lemma 1's lower end, for every anchor against its hardest negative."""
    ends = []
    for x, y in parts:
        cosines = x @ y.T
        cosines.fill_diagonal_(-torch.inf)
        ends.append(ratio_interval(x, y, y[cosines.argmax(dim=1)], step)[0])
    lower = torch.cat(ends)
    known = lower[lower.isfinite()]
    quantiles = torch.quantile(known, torch.tensor(QUANTILES, dtype=known.dtype)).tolist() if len(known) else []
    return {"quantiles": [round(value, 4) for value in quantiles], "exists": round(len(known) / len(lower), 4)}
