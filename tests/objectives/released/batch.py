"""The batch on which released and printed forms are compared, with values and gradients there."""

from __future__ import annotations

from typing import Any

import numpy as np

import hypersphere as hs
from hypersphere.testing.example import views

BATCH = views(7, 4)


def value(name: str, **params: Any) -> float:
    return float(hs.create_objective(name, **params)(*BATCH).item())


def gradients(name: str, **params: Any) -> list[np.ndarray]:
    z1, z2 = (z.clone().requires_grad_() for z in BATCH)
    hs.create_objective(name, **params)(z1, z2).backward()
    return [z1.grad.numpy(), z2.grad.numpy()]
