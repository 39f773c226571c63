"""Images drawn at random, as bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def random_images(count: int, channels: int, side: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, channels, side, side), dtype=np.uint8)
