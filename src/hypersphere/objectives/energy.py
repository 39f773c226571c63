"""Hyperspherical energies: MHE, MHS, DHEL and the spectral loss with alignment, KoLeo without."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Statistics, count, masked_mean, masked_sum
from hypersphere.geometry import chord, squared_chord
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.hardest import HardestObjective
from hypersphere.objectives.logsumexp import LogSumObjective, energy_of, energy_of_all
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, Number, anything, choice, number


class AlignedEnergy(PairwiseObjective):
    """Alignment mean_i ‖h_i-h'_i‖² plus an energy within a view; views "both" adds the energy of the other one."""

    negatives = "same"
    sum_directions = True
    views: str = choice("anchor", "both", default="anchor")

    @property
    def anchors(self) -> str:
        return "both" if self.views == "both" else "first"

    def distance(self, positive: Tensor) -> Tensor:
        """‖h_i-h'_i‖², counted once however many directions there are."""
        return (1 if self.views == "both" else 2) * (1 - positive)


@register("mhe")
class MHE(AlignedEnergy, LogSumObjective):
    """Alignment and minimum hyperspherical energy.

    L = mean_i ‖h_i-h'_i‖² + ν log mean_{i≠j} e^{-‖h_i-h_j‖²}, ν = ``weight``; with ``s`` the energy is that of Riesz
    instead: s > 0: mean ‖h_i-h_j‖^{-s}, s = 0: mean log 1/‖h_i-h_j‖ (distances clamped at 1e-6).

    Source: Li et al. 2024, section 4; Liu et al. 2018 for the Riesz energies.
    Use it as the unmodified start of ``mmhe``; it has no gradient dissipation and a ratio that drifts.
    Relations: its energy is the uniformity of ``align_uniform`` with t = 1.

    >>> x = torch.eye(4)
    >>> round(MHE()(x, x).item(), 6)
    -20.0
    """

    source = "Li et al. 2024; Liu et al. 2018"
    reductions = ("mean",)
    weight: float = number(default=10.0, at_least=0, tune=(1.0, 100.0))
    s: Any = anything(default=None)

    def check(self) -> None:
        if self.s is not None:
            self.s = Number(None, at_least=0).clean(self.s, "mhe's s")

    @property
    def scale(self) -> float | None:
        return 2.0 if self.s is None else None

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Statistics:
        squared = squared_chord(negatives).clamp_min(1e-12)
        potential = masked_sum(-0.5 * squared.log() if self.s == 0 else squared ** (-self.s / 2), mask)
        return self.from_logsumexp(positive, potential, count(mask))

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        return {"distance": self.distance(positive), "potential": logsumexp, "pairs": num_negatives.to(positive)}

    def combine(self, statistics: Statistics) -> Statistics:
        potential, pairs = statistics["potential"], statistics["pairs"]
        mean = energy_of_all(potential, pairs, 2.0) if self.s is None else potential.sum() / pairs.sum().clamp_min(1)
        alignment, energy = statistics["distance"].mean(), self.weight * mean
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


@register("mhs")
class MHS(AlignedEnergy, HardestObjective):
    """Alignment and maximum hyperspherical separation.

    L_i = ‖h_i-h'_i‖² - ν min_{j≠i} ‖h_i-h_j‖, mean over anchors, ν = ``weight``.

    Source: Li et al. 2024, section 4; Liu et al. 2021.
    Use it as the unmodified start of ``mmhs``: each anchor sees only its nearest neighbour.
    Relations: the energy of ``mhe`` with s → ∞; ``met`` asks the same of the other view, up to a margin.

    >>> x = torch.eye(4)
    >>> round(MHS()(x, x).item(), 6)
    -1.414214
    """

    source = "Li et al. 2024; Liu et al. 2021"
    weight: float = number(default=1.0, at_least=0, tune=(0.1, 10.0))

    def from_hardest(self, positive: Tensor, hardest: Any) -> Statistics:
        alignment = self.distance(positive)
        energy = torch.where(hardest > -inf, -self.weight * chord(hardest), 0)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


COINCIDENT = 1e-12  # a squared distance below which the gradient of a logarithm would be rounding alone


@register("koleo")
class KoLeo(HardestObjective):
    """Rows of a view spread out: each is pushed away from its nearest neighbour.

    L_i = -log( min_{j≠i} ‖h_i-h_j‖ + ε ), ε = ``eps``, mean over the rows of a view, then over the views. Both rows of
    a pair move. Where two rows coincide the gradient is 0. It aligns nothing.

    Source: Sablayrolles et al. 2019; DINOv2 (Oquab et al. 2024), which adds the terms of two views with weight 0.1.
    Use it as the second part of ``plus``, on a base whose rows crowd together.
    Relations: e^{-L_i} - ε is the distance of ``mhs``. The code of DINOv2 finds a row to be its own neighbour if all
    others are opposite to it.

    >>> x = torch.eye(4)
    >>> round(KoLeo()(x, x).item(), 6)
    -0.346574
    """

    source = "Sablayrolles et al. 2019; Oquab et al. 2024"
    negatives = "same"
    anchors = "both"
    fewest = 2
    takes = HardestObjective.takes | {"views"}
    eps: float = number(default=1e-8, above=0)

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
        squared = squared_chord(hardest)
        at_rest = squared.detach().clamp_min(0).sqrt()
        distance = torch.where(squared > COINCIDENT, squared.clamp_min(COINCIDENT).sqrt(), at_rest)
        return torch.where(hardest > -inf, -(distance + self.eps).log(), 0)


@register("dhel")
class DHEL(LogSumObjective):
    """Decoupled hyperspherical energy loss: alignment against the softmax energy of the anchor's own view.

    energy "anchor": L_i = -c_i/τ + log Σ_{j≠i} e^{a_ij/τ}; "both": the energy of either view added, alignment once;
    "symmetric": the mean of the anchor form and the same with the views exchanged.

    Source: Koromilas et al. 2024 (anchor: their figure; both: their code; symmetric: Lee et al. 2025).
    Use it where alignment and uniformity should not fight: perfect alignment never changes the energy.
    Relations: ``dcl`` with negatives from the anchor's own view; ``kcl`` without the logarithm.

    >>> x = torch.eye(4)
    >>> round(DHEL(temperature=1.0)(x, x).item(), 6)
    0.098612
    """

    source = "Koromilas et al. 2024"
    temperature: float = number(default=0.3, above=0, learnable=True, tune=TEMPERATURES)
    energy: str = choice("anchor", "both", "symmetric", default="anchor")

    @property
    def negatives(self) -> str | tuple[str, ...]:
        return ("same", "other") if self.energy == "both" else "same"

    @property
    def anchors(self) -> str:
        return "both" if self.energy == "symmetric" else "first"

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        if isinstance(logsumexp, tuple):  # of either view
            energy = torch.stack([energy_of(*each) for each in zip(logsumexp, num_negatives, strict=True)]).sum(dim=0)
        else:
            energy = energy_of(logsumexp, num_negatives)
        alignment = -positive / self.temperature
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


@register("spectral")
class Spectral(PairwiseObjective):
    """Spectral contrastive loss: pairs of different instances should be orthogonal.

    L = -2 mean_i s_ii + mean_{i≠j} s_ij².

    Source: HaoChen et al. 2021.
    Use it when a linear probe follows: its minimiser factorises the augmentation graph.
    Relations: the second order of ``infonce`` at a large temperature. The authors' code cuts rows to a length of
    √μ (1 by default), leaves shorter rows as they are, and divides the loss by μ. If all rows are cut, it
    computes -2 mean s_ii + μ mean s_ij², which is this loss at μ = 1. Here every row has length 1.

    >>> x = torch.eye(4)
    >>> Spectral()(x, x).item()
    -2.0
    """

    source = "HaoChen et al. 2021"

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        alignment, energy = -2 * positive, masked_mean(negatives**2, mask)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}
