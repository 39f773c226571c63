"""Features with classes, and an encoder, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.encoders.image import create_image_encoder


def clouds(classes: int, rows: int, dimension: int = 5, spread: float = 2.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A Gaussian cloud for each class, overlapping."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dimension, generator=generator)
    labels = torch.arange(classes).repeat(rows)
    return centres[labels] + spread * torch.randn(len(labels), dimension, generator=generator), labels


def fixed_embedding(
    rows: int, dim: int, classes: int, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Unit vectors around a direction of each class, noisy enough that folds and strengths differ."""
    draw = np.random.default_rng(seed)
    centres, labels = draw.normal(size=(classes, dim)), draw.integers(0, classes, rows)
    x = centres[labels] + 1.6 * draw.normal(size=(rows, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(labels)


def small_encoder() -> Any:
    torch.manual_seed(0)
    return create_image_encoder("small-cnn", 1, 8, width=8)
