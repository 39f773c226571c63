"""Kernel contrastive learning: kernel alignment and kernel energy, independent of the batch size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import LOGARITHM, Statistics, count, masked_mean, masked_sum_of
from hypersphere.geometry import squared_chord
from hypersphere.objectives.logsumexp import LogSumObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


@register("kcl")
class KCL(LogSumObjective):
    """Kernel alignment of positives and kernel energy within a view.

    L = -mean_i K(h_i, h'_i) + γ mean_{i≠j} K(h_i, h_j), with q = ‖·‖²: gaussian e^{-tq}; log -½ log(1+tq);
    imq c/sqrt(c²+q); riesz sign(s) q^{-s/2}, s < 0; gaussian_riesz: Riesz energy with Gaussian alignment.
    views "both" adds the same with the views exchanged (alignment counts twice), as the authors' code does.
    Riesz with s > 0 has an infinite alignment at coincident points and is refused; as an energy its distances are
    clamped at 1e-6.

    Source: Koromilas et al. 2024 (KCL).
    Use it for small batches: its expectation does not depend on the batch size.
    Relations: the logarithm of its Gaussian energy is the uniformity of ``align_uniform``; ``dhel`` is the form
    with a logarithm per anchor.

    >>> x = torch.eye(4)
    >>> round(KCL()(x, x).item(), 6)
    -0.70695
    """

    source = "Koromilas et al. 2024"
    negatives = "same"
    sum_directions = True
    kernel: str = choice("gaussian", "log", "imq", "riesz", "gaussian_riesz", default="gaussian")
    t: float = number(default=2.0, above=0, tune=(0.5, 8.0))
    c: float = number(default=2.0, above=0)
    s: float = number(default=1.0)
    gamma: float = number(default=16.0, at_least=0, tune=(1.0, 64.0))
    views: str = choice("anchor", "both", default="anchor")

    def check(self) -> None:
        if self.kernel == "riesz" and self.s >= 0:
            raise ValueError(f"kcl's riesz kernel cannot align with s={self.s:g} (only s < 0); use 'gaussian_riesz'")
        if self.kernel == "gaussian_riesz" and self.s == 0:
            raise ValueError("kcl's s must not be 0: that kernel is constant")

    @property
    def anchors(self) -> str:
        return "both" if self.views == "both" else "first"

    @property
    def scale(self) -> float | None:
        return 2 * self.t if self.kernel == "gaussian" else None

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        return self._of_potential(positive, torch.exp(logsumexp - 2 * self.t) / num_negatives.clamp_min(1))

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Statistics:
        if self.kernel == "log":
            logarithms = masked_sum_of(LOGARITHM, negatives, mask, -2 * self.t, 1 + 2 * self.t)
            potential = -0.5 * logarithms / count(mask).clamp_min(1)
        else:
            potential = masked_mean(self._kernel(self.kernel, negatives), mask)
        return self._of_potential(positive, potential)

    def _of_potential(self, positive: Tensor, potential: Tensor) -> Statistics:
        closeness = self._kernel("gaussian" if self.kernel == "gaussian_riesz" else self.kernel, positive)
        alignment, energy = -closeness, self.gamma * potential
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}

    def _kernel(self, kernel: str, cos: Tensor) -> Tensor:
        """K as a function of the cosine: q = 2 - 2 cos."""
        if kernel == "gaussian":
            return torch.exp(2 * self.t * cos - 2 * self.t)
        if kernel == "log":
            return torch.log(torch.rsub(cos, 1 + 2 * self.t, alpha=2 * self.t)) * -0.5
        if kernel == "imq":
            return self.c * (self.c**2 + 2 - 2 * cos).rsqrt()
        power = squared_chord(cos).clamp_min(1e-12) ** (-self.s / 2)
        return power if self.s > 0 else -power
