"""The modified objectives of Li et al. 2024, in the stages from the original loss to the effective one."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, count, masked_max
from hypersphere.geometry import squared_chord
from hypersphere.objectives.gated import ModifiedObjective, QuadraticStart
from hypersphere.objectives.logsumexp import energy_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import number

COINCIDENT = 1e-8  # squared distance below which two rows count as this far apart


@register("mmhe")
class ModifiedMHE(ModifiedObjective):
    """Minimum hyperspherical energy made an effective loss, in stages.

    original, +gd: W_ij = 2ν e^{2a_ij} / Σ_{k<l} e^{2a_kl}, P = 2/N; +w: W_ij = e^{a_ij/τ} / (τ Σ_{k<l} e^{a_kl/τ});
    +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i. Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 14 and 16 (corrected: the shared term counts once), Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, τ .05, r 1.75; RoBERTa-base: r 1.25). Compare gradients, not values.
    Relations: the original stage has the gradient of alignment + ν(U(h)+U(h')) with ``mhe``'s U.

    >>> x = torch.eye(4)
    >>> round(ModifiedMHE(margin=2.0)(x, x).item(), 6)
    -140.0
    """

    source = "Li et al. 2024, Eq. 14, 16"
    ratio: float = number(default=1.75, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=10.0, at_least=0, tune=(1.0, 100.0))

    @property
    def exponent(self) -> float:
        return 1 / self.temperature if self.weighted else 2.0

    def total_weight(self, mass: Tensor) -> Tensor:
        factor = 1 / self.temperature if self.weighted else self.exponent * self.weight
        return 2 * factor * torch.softmax(mass, dim=0)  # twice: Σ_{k<l} is half of the sum over ordered pairs


@register("mbarlow")
class ModifiedBarlow(QuadraticStart):
    """Barlow Twins made an effective loss, in stages.

    original, +gd: W_ij = 2ν b_ij/N², P y_i = (2/N)(I - (1-ν) diag C) y_i, C = mean_i h_i h'_iᵀ, b_ij = y_i·y_j;
    +w: W_ij = e^{s_ij/τ} / Σ_{k≠l} e^{s_kl/τ}, P = 2/N; +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i.
    Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 6, 10 (corrected: weight h'_i·h'_j) and 18, Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, τ .05, r 1.5; RoBERTa-base: m .37, r 1.25). Compare gradients, not values.
    Relations: the original stage has the gradient of ``barlow`` on unit vectors with weight ν.

    >>> x = torch.eye(4)
    >>> round(ModifiedBarlow(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "Li et al. 2024, Eq. 6, 10, 18"

    @property
    def weigh_by(self) -> str:
        return "cross" if self.weighted else "other"

    @property
    def only_similarities(self) -> bool:
        return self.weighted

    def prepare(self, x: Tensor, y: Tensor) -> Tensor:
        """Weights (D,) of the features in the positive's pull: 1 - (1-ν) C_kk."""
        return 1 - (1 - self.weight) * (x * y).mean(dim=0)

    def similarity(self, anchors: Anchors) -> Tensor:
        if self.weighted:
            return super().similarity(anchors)
        weights: Tensor = anchors.context
        return (anchors.rows * anchors.others.detach() * weights).sum(dim=1)


@register("mvicreg")
class ModifiedVICReg(QuadraticStart):
    """VICReg made an effective loss, in stages.

    original, +gd: W_ij = 2ν a_ij/N², P = 2/N; +w: W_ij = e^{a_ij/τ} / Σ_{k≠l} e^{a_kl/τ}, P = 2/N;
    +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i. Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 13, Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, τ .05, r 1.5; RoBERTa-base: m .37, r 1.25). Compare gradients, not values.
    Relations: the original stage is the gradient of alignment plus the full covariance penalty, diagonal included,
    which is Li's surrogate for ``vicreg``.

    >>> x = torch.eye(4)
    >>> round(ModifiedVICReg(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "Li et al. 2024, Eq. 13"


@register("mmhs")
class ModifiedMHS(ModifiedObjective):
    """Maximum hyperspherical separation made an effective loss, in stages.

    original, +gd: W = ν/‖x_i-x_j‖ on the nearest j only, P = 2/N; +r: W = 1/‖x_i-x_j‖, P_i = r W. There is no +w: the
    weight is on the nearest from the start. From +gd on times the gate d_i. Rows closer than 1e-4 count as that far
    apart. Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 15 and 17 (corrected: min for max), Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, r 1.75; RoBERTa-base: m .27, r 1.0). Compare gradients, not values.
    Relations: the modified form of ``mhs``.

    >>> x = torch.eye(4)
    >>> round(ModifiedMHS(margin=2.0)(x, x).item(), 6)
    -9.899495
    """

    source = "Li et al. 2024, Eq. 15, 17"
    stages = ("original", "+gd", "+r")
    ratio: float = number(default=1.75, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=1.0, at_least=0, tune=(0.1, 10.0))

    def push(self, anchors: Anchors) -> Statistics:
        nearest = masked_max(self.matrix(anchors, "same"), self.mask(anchors, "same"))
        distance = squared_chord(nearest).detach().clamp_min(COINCIDENT).sqrt()
        return {"negative": energy_of(nearest, count(self.mask(anchors, "same"))), "mass": 1 / distance}

    def total_weight(self, mass: Tensor) -> Tensor:
        return mass if self.stage == "+r" else self.weight * mass
