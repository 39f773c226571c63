"""Similarities of two views in batches, and the weights that each temperature gives them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hypersphere.anatomy.anatomy import STEP
from hypersphere.anatomy.lemma import ratio_interval
from hypersphere.geometry import normalize

TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
APPROACHING = 0.9  # share of the anchors that the advised ratio brings closer to their positive


class Weights(NamedTuple):
    """Means over the anchors of a softmax over their cross-view negatives, as in InfoNCE.

    hardest, hardest_tenth: share of the negatives' weight on the hardest negative, on the hardest tenth of them;
    effective: how many negatives share the weight, the exponential of its entropy; gradient: what is left of it beside
    the positive (Li's dissipation).
    """

    temperature: float
    hardest: float
    hardest_tenth: float
    effective: float
    gradient: float


@dataclass(frozen=True)
class Evidence:
    """Cosines of positives and negatives (mean, standard deviation), and their weights at several temperatures.

    hardest: mean cosine of an anchor's hardest negative; negatives: of each anchor; ratio: the least ratio of pull to
    push with which 90 % of the anchors come closer to their positive (Lemma 1 of Li et al. 2024, step 0.1, hardest
    negative); NaN if there is none.
    """

    positive: tuple[float, float]
    negative: tuple[float, float]
    hardest: float
    negatives: int
    ratio: float
    weights: tuple[Weights, ...]


@torch.no_grad()
def find_evidence(
    z1: Tensor, z2: Tensor, temperatures: tuple[float, ...] = TEMPERATURES, *, batch_size: int | None = None,
    seed: int = 0,
) -> Evidence:  # fmt: skip
    """The evidence in random batches of ``batch_size`` rows, as in training; by default in one batch of all rows.

    >>> evidence = find_evidence(torch.eye(4), torch.eye(4), (0.1, 1.0))
    >>> evidence.positive, evidence.negative
    ((1.0, 0.0), (0.0, 0.0))
    >>> [round(each.effective, 6) for each in evidence.weights]
    [3.0, 3.0]
    """
    h, other = (normalize(z.detach().double(), name)[0] for z, name in ((z1, "z1"), (z2, "z2")))
    batches = random_batches(len(h), batch_size, seed)
    positives, negatives, hardest = [], [], []
    for rows in batches:
        own = torch.eye(len(rows), dtype=torch.bool, device=h.device)
        cosines = h[rows] @ other[rows].T
        positives.append(cosines.diagonal())
        negatives.append(cosines[~own].view(len(rows), -1))  # (B, B - 1)
        hardest.append(other[rows][cosines.masked_fill(own, -math.inf).argmax(dim=1)])
    positive, negative, rows = torch.cat(positives), torch.cat(negatives), torch.cat(batches)
    low = ratio_interval(h[rows], other[rows], torch.cat(hardest), STEP)[0]
    low = low[low.isfinite()]
    return Evidence(
        (positive.mean().item(), positive.std(correction=0).item()),
        (negative.mean().item(), negative.std(correction=0).item()),
        negative.amax(dim=1).mean().item(),
        negative.shape[1],
        torch.quantile(low, APPROACHING).clamp_min(0).item() if len(low) else math.nan,
        tuple(_weights(positive, negative, each) for each in temperatures),
    )


def random_batches(count: int, size: int | None, seed: int) -> list[Tensor]:
    """Indices of ``count`` rows in random batches of one size; a smaller last batch is left out."""
    if size is None or size >= count:
        return [torch.arange(count)]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return [rows for rows in order.split(size) if len(rows) == size]


def _weights(positive: Tensor, negative: Tensor, temperature: float) -> Weights:
    share = torch.softmax(negative / temperature, dim=1).sort(dim=1, descending=True).values
    tenth = max(1, round(share.shape[1] / 10))
    push = torch.logsumexp(negative / temperature, dim=1)
    return Weights(
        temperature,
        share[:, 0].mean().item(),
        share[:, :tenth].sum(dim=1).mean().item(),
        torch.exp(-torch.special.xlogy(share, share).sum(dim=1)).mean().item(),
        torch.sigmoid(push - positive / temperature).mean().item(),
    )
