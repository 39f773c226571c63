"""Weighted nearest neighbours on the sphere: a probe without training."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.evaluation.accuracy import Accuracy, accuracy, check_labelled
from hypersphere.geometry import unit


def nearest(queries: Tensor, keys: Tensor, k: int, rows: int = 1024, columns: int = 16384) -> tuple[Tensor, Tensor]:
    """Cosines and indices of the ``k`` keys nearest to every query, nearest first; each (queries, k).

    The result is exact. At most rows × columns similarities exist at a time: each new block competes with the best so
    far.
    """
    queries, keys = unit(queries.float()), unit(keys.float())
    cosines, numbers = [], []
    for part in queries.split(rows):
        best = part.new_empty(len(part), 0)
        who = torch.empty(len(part), 0, dtype=torch.long, device=part.device)
        for start in range(0, len(keys), columns):
            block = part @ keys[start : start + columns].T
            here = torch.arange(start, start + block.shape[1], device=part.device).expand(len(part), -1)
            all_cosines, all_numbers = torch.cat([best, block], dim=1), torch.cat([who, here], dim=1)
            best, place = all_cosines.topk(min(k, all_cosines.shape[1]), dim=1)
            who = all_numbers.gather(1, place)
        cosines.append(best)
        numbers.append(who)
    return torch.cat(cosines), torch.cat(numbers)


def knn_probe(
    train_z: Tensor,
    train_y: Tensor,
    test_z: Tensor,
    test_y: Tensor,
    *,
    k: int = 200,
    temperature: float = 0.07,
    classes: int | None = None,
) -> Accuracy:
    """Accuracy of a vote of the ``k`` nearest training rows, each with the weight e^(cosine / temperature).

    With fewer than k training rows all of them vote. A class without a vote is never predicted.

    Source: Wu et al. 2018, section 3.4.

    >>> z = torch.eye(3)
    >>> knn_probe(z, torch.tensor([0, 1, 2]), z, torch.tensor([0, 1, 1]), k=1).top1
    0.6666667
    """
    check_labelled(train_z, train_y, "training features")
    check_labelled(test_z, test_y, "test features")
    if k < 1:
        raise ValueError(f"k must be a whole number of at least 1, not {k!r}")
    if not temperature > 0:
        raise ValueError(f"temperature must be a number above 0, not {temperature!r}")
    count = classes or int(max(train_y.max(), test_y.max())) + 1
    cosines, numbers = nearest(test_z, train_z, k)
    weights = ((cosines - cosines[:, :1]) / temperature).double().exp()  # the nearest has 1: only ratios count
    votes = torch.zeros(len(test_z), count, dtype=torch.float64, device=weights.device)
    votes.scatter_add_(1, train_y.to(numbers.device)[numbers], weights)
    return accuracy(votes.log(), test_y)  # no vote: -inf


def few_labels_probe(
    train_z: Tensor, train_y: Tensor, test_z: Tensor, test_y: Tensor, *, per_class: int, draws: int = 20, seed: int = 0
) -> float:
    """Mean accuracy of ``knn_probe`` when only ``per_class`` rows of each class have a label, over several draws of
    them. It is harder than with all labels, and tests geometry rather than memory.

    >>> z = torch.eye(3).repeat(2, 1)
    >>> few_labels_probe(z, torch.tensor([0, 1, 2] * 2), z, torch.tensor([0, 1, 2] * 2), per_class=1)
    1.0
    """
    if per_class < 1:
        raise ValueError(f"per_class must be a whole number of at least 1, not {per_class!r}")
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.nonzero(train_y == label).flatten() for label in train_y.unique()]
    total = 0.0
    for _ in range(draws):
        chosen = torch.cat([own[torch.randperm(len(own), generator=generator)[:per_class]] for own in rows])
        total += knn_probe(train_z[chosen], train_y[chosen], test_z, test_y).top1
    return total / draws
