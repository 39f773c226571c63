"""Scores for CLOA's three lines: whether their classes are separable, and whether all embeddings lie on one line."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.diagnostics import effective_rank
from hypersphere.evaluation.knn import knn_probe
from hypersphere.geometry import unit

NEIGHBOURS = 3


def line_accuracy(known: Tensor, labels: Tensor, z: Tensor, classes: Tensor) -> float:
    """Share of points whose three nearest embeddings, by cosine, vote for the line they came from."""
    return knn_probe(known, labels, z, classes, k=NEIGHBOURS).top1


def line_geometry(z: Tensor, labels: Tensor) -> dict[str, float]:
    """How close unit rows (N, D) are to one line through the origin, and how close the classes are to a common one.

    first_share, first_share_centred: the first singular value over the sum of all, of the rows and of the rows minus
        their mean. 1: a line.
    class_cosine: the largest |cosine| between the main directions (first right singular vectors) of two classes.

    >>> rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -2.0]])
    >>> {name: round(value, 3) for name, value in line_geometry(rows, torch.tensor([0, 0, 1, 1])).items()}
    {'first_share': 0.5, 'first_share_centred': 0.5, 'class_cosine': 0.0, 'effective_rank': 2.0}
    """
    z = unit(z.double())
    mains = torch.stack([torch.linalg.svd(z[labels == label], full_matrices=False)[2][0] for label in labels.unique()])
    cosines = (mains @ mains.T).abs().fill_diagonal_(0.0)
    return {
        "first_share": _first_share(z),
        "first_share_centred": _first_share(z - z.mean(dim=0)),
        "class_cosine": cosines.max().item(),
        "effective_rank": effective_rank(z),
    }


def _first_share(z: Tensor) -> float:
    values = torch.linalg.svdvals(z)
    total = values.sum().item()
    return values[0].item() / total if total else 1.0
