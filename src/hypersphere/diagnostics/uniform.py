"""The cosine of two points drawn uniformly from the sphere in R^n: distribution, quantiles, distance to it.

Its density is c (1-x²)^{(n-3)/2} on [-1, 1], c = Γ(n/2) / (Γ((n-1)/2) √π): all the mass at 0 as n grows. In the angle
θ = arccos x the density is sin^{n-2} θ, smooth for every n >= 2, so Gauss-Legendre panels in θ integrate it to
float64's precision; between the panels' ends a cubic through values and derivatives is exact to about 1e-13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

CHUNK = 1 << 20  # cosines handled at once
BINS = 1 << 20  # of the streamed distance


class UniformCosine:
    """Cosine of two uniform points on the sphere in R^dim, dim >= 2.

    >>> UniformCosine(3).quantile(torch.tensor([0.25, 0.5])).tolist()  # Archimedes: the cosine is uniform
    [-0.5, 0.0]
    """

    def __init__(self, dim: int) -> None:
        if dim < 2:
            raise ValueError(f"a sphere to be uniform on needs at least 2 dimensions, not {dim}")
        self.dim = dim
        panels = max(2048, math.ceil(1000 * math.sqrt(dim))) // 2 * 2  # the cubic's error is about dim² / panels⁴
        self.width = math.pi / panels
        ends = torch.arange(panels + 1, dtype=torch.float64) * self.width  # angles
        places, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(8))
        self._angles = ends[:-1, None] + self.width * (places + 1) / 2  # (panels, 8)
        self._mass = self._slope(self._angles) * weights * self.width / 2
        self._below = torch.cat([torch.zeros(1, dtype=torch.float64), self._mass.sum(dim=1).cumsum(0)])  # P(angle <= θ)
        self._density = self._slope(ends)

    def cdf(self, x: Tensor) -> Tensor:
        """P(cosine <= x)."""
        x = x.double().clamp(-1, 1)
        tail = self._tail(x.abs().arccos())
        return torch.where(x > 0, 1 - tail, tail)

    def quantile(self, level: Tensor) -> Tensor:
        """The x with P(cosine <= x) = level: Newton's steps on the cubic of the panel that holds it."""
        level = level.double()
        tail = torch.minimum(level, 1 - level)
        panel = (torch.searchsorted(self._below, tail, right=True) - 1).clamp(0, len(self._mass) - 1)
        low = panel.double() * self.width
        angle = low + self.width / 2
        for _ in range(6):
            slope = self._slope(angle).clamp_min(1e-300)
            angle = (angle - (self._tail(angle) - tail) / slope).clamp(low, low + self.width)
        x = torch.where(tail > 0, angle.clamp(0, math.pi / 2).cos(), 1.0)
        return torch.where(level > 0.5, x, -x)

    def mean(self, function: Callable[[Tensor], Tensor]) -> float:
        """E[function(cosine)]."""
        return float((function(self._angles.cos()) * self._mass).sum())

    def wasserstein(self, cosines: Tensor) -> float:
        """∫ |F_M(x) - F(x)| dx, the 1-Wasserstein distance of M given cosines to this distribution, without sampling.

        Between two neighbouring cosines F_M is a level k/M, and ∫ F = xF(x) + c (1-x²)^{(n-1)/2} / (n-1); where F
        crosses the level, the integral is split at the quantile.
        """
        ordered = cosines.double().flatten().clamp(-1, 1).sort().values
        count = len(ordered)
        first, last = ordered[:1], ordered[-1:]
        total = float(self._area(first, self.cdf(first)) + last.neg() + self._area(last, self.cdf(last)))
        for start in range(0, count - 1, CHUNK):
            x = ordered[start : start + CHUNK + 1]
            level = torch.arange(start + 1, start + len(x), dtype=torch.float64) / count
            total += float(self._between(x, level).sum())
        return total

    def wasserstein_streamed(self, parts: Iterable[Tensor]) -> float:
        """The same distance from parts of the cosines, in memory that does not grow with their number.

        A bin keeps the number and the sum of its cosines, which give ∫ F_M over the bin exactly, and so ∫ |F_M - F|
        where F_M and F do not cross inside. A bin with a crossing has an error below its width (2e-6) times its share
        of both distributions.
        """
        width = 2 / BINS
        edges = torch.arange(BINS + 1, dtype=torch.float64) * width - 1
        counts, offsets = torch.zeros(BINS, dtype=torch.float64), torch.zeros(BINS, dtype=torch.float64)
        for part in parts:
            above = part.flatten().clamp(-1, 1).double() + 1  # the lowest edge
            place = (above / width).long().clamp_max(BINS - 1)
            counts += place.bincount(minlength=BINS).cpu()
            offsets += place.bincount(above - place * width, minlength=BINS).cpu()
        total = counts.sum()
        below = (counts.cumsum(0) - counts) / total  # F_M at the lower edge
        measured = below * width + (counts * width - offsets) / total
        return float((measured - self._area(edges, self.cdf(edges)).diff()).abs().sum())

    def _between(self, x: Tensor, level: Tensor) -> Tensor:
        """∫ |level - F| over each interval of the sorted ``x``."""
        below = self.cdf(x)
        area = self._area(x, below)
        integrals = (area.diff() - level * x.diff()).abs()
        cross = ((below[:-1] < level) & (below[1:] > level)).nonzero().flatten()
        if len(cross):
            at, low, high = level[cross], x[:-1][cross], x[1:][cross]
            middle = torch.minimum(torch.maximum(self.quantile(at), low), high)
            split = self._area(middle, self.cdf(middle))
            left = at * (middle - low) - (split - area[:-1][cross])
            integrals[cross] = left + (area[1:][cross] - split) - at * (high - middle)
        return integrals

    def _area(self, x: Tensor, below: Tensor) -> Tensor:
        """∫_{-1}^x F."""
        n = self.dim
        constant = math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2)) / math.sqrt(math.pi)
        return x * below + constant / (n - 1) * (1 - x * x).clamp_min(0).pow((n - 1) / 2)

    def _slope(self, angle: Tensor) -> Tensor:
        n = self.dim
        constant = math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2)) / math.sqrt(math.pi)
        return constant * angle.sin().pow(n - 2)

    def _tail(self, angle: Tensor) -> Tensor:
        """P(angle of the two points <= ``angle``)."""
        panel = (angle / self.width).long().clamp(0, len(self._mass) - 1)
        s = angle.double() / self.width - panel
        low, high = self._below[panel], self._below[panel + 1]
        slopes = (self._density[panel] * (1 - s) - self._density[panel + 1] * s) * self.width
        return low + (high - low) * s * s * (3 - 2 * s) + s * (1 - s) * slopes


def riesz_energy_of_uniform(dim: int) -> float:
    """E[1/‖x-y‖] of two uniform points on the sphere in R^dim; infinite on the circle.

    >>> round(riesz_energy_of_uniform(3), 6)
    1.0
    """
    if dim < 3:
        return math.inf
    d = dim - 1
    log = (d - 2) * math.log(2) + math.lgamma((d + 1) / 2) + math.lgamma((d - 1) / 2) - math.lgamma(d - 0.5)
    return math.exp(log) / math.sqrt(math.pi)
