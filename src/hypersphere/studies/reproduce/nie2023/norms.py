"""Lengths of the two parts of an anchor's gradient, by formula and by dissect."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from hypersphere.anatomy import (
    dissect,
)
from hypersphere.objectives import create_objective

TAU, T = 0.05, 2.0
MARGINS = {"mpt": 0.23, "met": 0.45, "mat": 0.15 * math.pi}
Norms = tuple[Any, Any]  # alignment part; all negatives together


def norms(name: str, positive: Any, negative: Any, count: int = 64) -> Norms:
    """Lengths of the two parts of an anchor's tangential gradient, its positive at one angle and all ``count``
    negatives at another, in one place (1/‖g‖ dropped). For align_uniform: of either term alone, times N.

    >>> [round(float(part), 6) for part in norms("mat", 0.5, 0.6)]
    [1.0, 1.0]
    """
    if name in ("infonce", "dcl", "dcl_plus"):
        gate = _softmax_gate(name, positive, negative, count)
        return gate * np.sin(positive) / TAU, gate * np.sin(negative) / TAU
    if name == "align_uniform":
        return 2 * np.sin(positive) + 0 * negative, 2 * T * np.sin(negative) + 0 * positive
    gate = np.where(edge(name, positive, negative, count) < 0, 1.0, 0.0)
    if name == "mpt":
        return gate * np.sin(positive), gate * np.sin(negative)
    if name == "met":
        return gate * np.cos(positive / 2), gate * np.cos(negative / 2)
    return gate, gate


def edge(name: str, positive: Any, negative: Any, count: int = 64) -> Any:
    """Gap minus the gap at which the gradient dissipates: zero on the edge, above it beyond."""
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
    h = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]], dtype=torch.float64)
    away = torch.tensor([math.cos(negative), 0, math.sin(negative)], dtype=torch.float64)
    pulls = torch.tensor([math.cos(positive), math.sin(positive), 0], dtype=torch.float64)
    settings: dict[str, Any] = {"temperature": TAU} if name in ("infonce", "dcl", "dcl_plus") else {}
    if name in MARGINS:
        settings["margin"] = MARGINS[name]
    found = dissect(create_objective(name, **settings), h, torch.stack([pulls, away]),
                    negatives=away.expand(count - 1, 3) if count > 1 else None)  # fmt: skip
    parts = found.parts()
    return parts["alignment"][0].norm().item(), parts["uniformity"][0].norm().item()
