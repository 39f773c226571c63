"""The modified objectives of Li et al. 2024, in the stages from the original loss to the effective one."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Statistics, count, masked_max, masked_min
from hypersphere.geometry import squared_chord
from hypersphere.objectives.gated import ModifiedObjective, QuadraticStart
from hypersphere.objectives.log_sums import energy_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number

COINCIDENT = 1e-8  # squared distance below which two rows count as this far apart


@register("mmhe")
class ModifiedMHE(ModifiedObjective):
    """Minimum hyperspherical energy made an effective loss, in stages.

    original, +gd: W_ij = 2ν e^{2a_ij} / Σ_{k<l} e^{2a_kl}, P = 2/N; +w: W_ij = e^{a_ij/τ} / (τ Σ_{k<l} e^{a_kl/τ});
    +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i. variant "released" has e^{a_ij} for e^{2a_ij} and fixes the
    ratio at 1 from +w on; "printed" adds the energy of the whole batch to every open anchor at +r, as Eq. 14 says
    literally: Σ_k d_k W_ij for d_i W_ij. Reduction "sum", as the gradients are defined.

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
    variant: str = choice("paper", "released", "printed", default="paper")

    def times(self, gate: Tensor) -> Tensor:
        literal = self.variant == "printed" and self.stage == "+r"
        return gate.sum().expand_as(gate) if literal else gate

    @property
    def fixed_ratio(self) -> float | None:
        return 1.0 if self.released and self.stage == "+w" else super().fixed_ratio

    @property
    def exponent(self) -> float:
        if self.weighted:
            return 1 / self.temperature
        return 1.0 if self.released else 2.0

    def total_weight(self, mass: Tensor) -> Tensor:
        factor = 1 / self.temperature if self.weighted else self.exponent * self.weight
        return 2 * factor * torch.softmax(mass, dim=0)  # twice: Σ_{k<l} is half of the sum over ordered pairs


@register("mbarlow")
class ModifiedBarlow(QuadraticStart):
    """Barlow Twins made an effective loss, in stages.

    original, +gd: W_ij = 2ν b_ij/N², P y_i = (2/N)(I - (1-ν) diag C) y_i, C = mean_i h_i h'_iᵀ, b_ij = y_i·y_j;
    +w: W_ij = e^{s_ij/τ} / Σ_{k≠l} e^{s_kl/τ}, P = 2/N; +r: P_i = r Σ_j W_ij. From +gd on times the gate d_i.
    variant "released" takes the weights from b at every stage; "printed" from s at every stage, as Eq. 10 has it.
    Reduction "sum", as the gradients are defined.

    Source: Li et al. 2024, Eq. 6, 10 (corrected: weight h'_i·h'_j) and 18, Table 5 for the stages.
    Use it for sentences (BERT-base: m .30, τ .05, r 1.5; RoBERTa-base: m .37, r 1.25). Compare gradients, not values.
    Relations: the original stage has the gradient of ``barlow`` on unit vectors with weight ν.

    >>> x = torch.eye(4)
    >>> round(ModifiedBarlow(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "Li et al. 2024, Eq. 6, 10, 18"
    variant: str = choice("paper", "released", "printed", default="paper")

    @property
    def weigh_by(self) -> str:
        crossed = self.variant == "printed" or (self.weighted and not self.released)
        return "cross" if crossed else "other"

    @property
    def only_similarities(self) -> bool:
        return self.weighted and super().only_similarities

    def prepare(self, x: Tensor, y: Tensor) -> Tensor:
        """Weights (D,) of the features in the positive's pull: 1 - (1-ν) C_kk."""
        return 1 - (1 - self.weight) * (x * y).mean(dim=0)

    def similarity(self, anchors: Anchors, others: Tensor, rows: Tensor | None = None) -> Tensor:
        return super().similarity(anchors, others if self.weighted else others * anchors.context, rows)


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
    weight is on the nearest from the start. From +gd on times the gate d_i. variant "released" takes the nearest from
    the other view, sqrt(d²+1e-4) for d, and the mean over anchors; "printed" has P_i = r/max_j ‖x_i-x_j‖ at +r, as
    Eq. 15 has it. Rows closer than 1e-4 count as that far apart. Reduction "sum", as the gradients are defined.

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
    variant: str = choice("paper", "released", "printed", default="paper")

    @property
    def misprinted(self) -> bool:
        """Whether the pull is that of the misprint."""
        return self.variant == "printed" and self.stage == "+r"

    @property
    def moved_along(self) -> str:
        return "cross" if self.released else "same"

    @property
    def weigh_by(self) -> str:
        return self.moved_along

    def push(self, anchors: Anchors) -> Statistics:
        nearest = masked_max(self.matrix(anchors, self.moved_along), anchors.mask)
        squared = squared_chord(nearest).detach()
        distance = (squared + 1e-4).sqrt() if self.released else squared.clamp_min(COINCIDENT).sqrt()
        found = {"negative": energy_of(nearest, count(anchors.mask)), "mass": 1 / distance}
        if self.misprinted:
            widest = masked_min(self.matrix(anchors, "same").detach(), anchors.mask)
            found["pull"] = (2 - 2 * widest).clamp_min(COINCIDENT).rsqrt()
        return found

    def pull(self, statistics: Statistics, weight: Tensor) -> Tensor | float:
        return self.ratio * statistics["pull"].detach() if self.misprinted else super().pull(statistics, weight)

    def total_weight(self, mass: Tensor) -> Tensor:
        weight = mass if self.stage == "+r" else self.weight * mass
        return weight / len(mass) if self.released else weight
