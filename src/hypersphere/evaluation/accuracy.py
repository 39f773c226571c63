"""How often the right class is the first, or among the first five."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Accuracy:
    """Shares of correct answers; ``top5`` is None with five classes or fewer, because it would always be 1."""

    top1: float
    top5: float | None


def accuracy(scores: Tensor, labels: Tensor) -> Accuracy:
    """Top-1 and top-5 of scores (N, classes). Among equal scores the lower class goes first; -inf is no answer.

    >>> accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    Accuracy(top1=0.5, top5=None)
    """
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :5]
    answered = scores.gather(1, order) > -torch.inf
    hits = (order == labels.to(order.device).unsqueeze(1)) & answered
    top5 = hits.any(dim=1).double().mean().item() if scores.shape[1] > 5 else None
    return Accuracy(hits[:, 0].double().mean().item(), top5)


def check_labelled(z: Tensor, y: Tensor, what: str) -> None:
    """Refuses rows without labels, labels without rows, and rows that are not finite."""
    if z.ndim != 2 or y.shape != z.shape[:1] or not len(z):
        raise ValueError(f"{what} must be rows (N, D) and a label for each, not {tuple(z.shape)} and {tuple(y.shape)}")
    if not z.isfinite().all():
        bad = (~z.isfinite().all(dim=1)).sum().item()
        raise ValueError(f"{what} have {bad} of {len(z)} rows that are not finite")
    if y.min() < 0:
        raise ValueError(f"{what} have {(y < 0).sum().item()} of {len(y)} rows without a label (-1); leave them out")
