"""Squared distances of unit vectors that nearly coincide.

2 - 2 cos has an error of some 1e-7 in float32, which is all of it for vectors 3e-4 apart: a distance or an angle made
of it, and a gradient, which is its inverse, are noise there. A cosine that comes with its vectors, as those that the
engine hands to an objective do, has its squared distance computed from these where that is small.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hypersphere.geometry.modes import plain_operations

NEAR = 2**-6  # below this squared distance, 2 - 2 cos has fewer than five digits in float32
MISMATCH = 2**-8  # a correction beyond what rounding explains (also that of TF32) is none

Squared = Callable[[Tensor], Tensor | None]


def with_vectors(cos: Tensor, squared: Squared) -> Tensor:
    """The same tensor, which remembers where to ask for its squared distances; they are computed if needed. None: there
    are none better than 2 - 2 cos."""
    version = None if cos.is_inference() else cos._version
    cos._squared = (squared, version)  # type: ignore[attr-defined]
    return cos


def vectors_of(cos: Tensor) -> Squared | None:
    """What it was given; None: it came alone, was changed since, or none but torch's own operations will do."""
    squared: Squared | None
    squared, version = getattr(cos, "_squared", (None, None))
    if squared is None or plain_operations():
        return None
    return squared if cos.is_inference() or version == cos._version else None


def detached(cos: Tensor) -> Tensor:
    """Without its gradient, but with its vectors."""
    known, bare = vectors_of(cos), cos.detach()
    return bare if known is None else with_vectors(bare, known)


def exact_squared(cos: Tensor) -> Tensor | None:
    """Squared distances without gradient, from the vectors where these are near; None: 2 - 2 cos is as good."""
    known = vectors_of(cos)
    return None if known is None else known(cos.detach())


def squared_chord(cos: Tensor) -> Tensor:
    """‖x-y‖² = 2 - 2 cos of two unit vectors.

    >>> squared_chord(torch.tensor([-1.0, 0.5])).tolist()
    [4.0, 1.0]
    """
    exact = exact_squared(cos)
    return 2 - 2 * cos if exact is None else carried(cos, exact)


def corrected(cos: Tensor, exact: Tensor) -> Tensor:
    """2 - 2 cos, and ``exact`` where that is near and the two agree but for rounding."""
    plain = 2 - 2 * cos
    return torch.where((plain < NEAR) & ((exact - plain).abs() < MISMATCH), exact, plain)


def carried(cos: Tensor, exact: Tensor) -> Tensor:
    """The value of ``exact`` with the gradient of 2 - 2 cos."""
    plain = 2 - 2 * cos
    known = plain.detach()
    return plain + torch.where(exact == known, 0, exact - known)
