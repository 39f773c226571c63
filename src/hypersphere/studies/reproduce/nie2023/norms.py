"""Lengths of the alignment part and of one negative's part of an anchor's gradient, by formula and by dissect."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from hypersphere.anatomy import dissect
from hypersphere.geometry import tangent
from hypersphere.objectives import create_objective

TAU, T = 0.05, 2.0
MARGINS = {"mpt": 0.23, "met": 0.45, "mat": 0.15 * math.pi}
Norms = tuple[Any, Any]  # alignment part; part of one negative
HINGES = ("mpt", "met", "mat")  # only the hardest of their negatives has a part


def norms(name: str, positive: Any, negative: Any, count: int = 64) -> Norms:
    """Lengths of the alignment part and of one negative's part of an anchor's tangential gradient, the positive at one
    angle and all ``count`` negatives at another, in one place (1/‖g‖ dropped).

    For align_uniform: of L_align, and of L_uniform if all N(N-1) pairs of N = count + 1 instances are at one angle.
    For the hinges the negative is the hardest.

    >>> [round(float(part), 6) for part in norms("mat", 0.5, 0.6)]
    [1.0, 1.0]
    """
    if name in ("infonce", "dcl", "dcl_plus"):
        gate = _softmax_gate(name, positive, negative, count)
        return gate * np.sin(positive) / TAU, gate * np.sin(negative) / (TAU * count)
    if name == "align_uniform":
        pairs = count * (count + 1)
        return 2 * np.sin(positive) + 0 * negative, 2 * T * np.sin(negative) / pairs + 0 * positive
    gate = np.where(edge(name, positive, negative, count) < 0, 1.0, 0.0)
    if name == "mpt":
        return gate * np.sin(positive), gate * np.sin(negative)
    if name == "met":
        return gate * np.cos(positive / 2), gate * np.cos(negative / 2)
    return gate, gate


def edge(name: str, positive: Any, negative: Any, count: int = 64) -> Any:
    """Gap minus the gap at which the gradient dissipates: zero on the edge, positive beyond it."""
    if name == "met":
        return 2 * np.sin(negative / 2) - 2 * np.sin(positive / 2) - MARGINS[name]
    if name == "mat":
        return negative - positive - MARGINS[name]
    gap = np.cos(positive) - np.cos(negative)
    return gap - (MARGINS["mpt"] if name == "mpt" else TAU * math.log(count))


def _softmax_gate(name: str, positive: Any, negative: Any, count: int) -> Any:
    beyond = edge(name, positive, negative, count)
    if name == "infonce":
        return 1 / (1 + np.exp(np.clip(beyond / TAU, -500, 500)))
    return np.where(beyond < 0, 1.0, 0.0) if name == "dcl_plus" else np.ones_like(beyond)


def measured_norms(name: str, positive: float, negative: float, count: int = 64) -> tuple[float, float]:
    """The same by ``dissect`` on vectors placed at those angles: one anchor, and its negatives in one place."""
    if name == "align_uniform":
        return _measured_terms(positive, negative, count)
    h = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]], dtype=torch.float64)
    away = torch.tensor([math.cos(negative), 0, math.sin(negative)], dtype=torch.float64)
    pulls = torch.tensor([math.cos(positive), math.sin(positive), 0], dtype=torch.float64)
    settings: dict[str, Any] = {"margin": MARGINS[name]} if name in MARGINS else {"temperature": TAU}
    others = 0 if name in HINGES else count - 1  # a hinge uses one negative; more at the same place would tie
    anatomy = dissect(create_objective(name, **settings), h, torch.stack([pulls, away]),
                      negatives=away.expand(others, 3) if others else None)  # fmt: skip
    push = anatomy.coefficients.negative[0, 1] * tangent(away.unsqueeze(0), h[:1])
    return anatomy.parts()["alignment"][0].norm().item(), push.norm().item()


def _measured_terms(positive: float, negative: float, count: int) -> tuple[float, float]:
    """L_align and L_uniform of a batch with all anchors at one point and the second view at another."""
    size, weight = count + 1, 0.5
    h = torch.tensor([[1.0, 0, 0]], dtype=torch.float64).expand(size, 3)
    objective = create_objective("align_uniform", pairs="cross", alpha=2, t=T, weight=weight)
    parts = []
    for theta in (positive, negative):
        others = torch.tensor([[math.cos(theta), math.sin(theta), 0]], dtype=torch.float64).expand(size, 3)
        parts.append(dissect(objective, h, others, scope="batch"))
    align = parts[0].parts()["alignment"][0].norm().item() * size / (1 - weight)  # L_align is a mean over the batch
    push = parts[1].coefficients.negative[0, 1] * tangent(parts[1].positives[1:2], h[:1])
    return align, push.norm().item() / weight
