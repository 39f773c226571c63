"""The softmax family: the positive against everything else."""

from __future__ import annotations

from math import cos, inf, log1p, pi, sin
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine import Statistics, masked_logsumexp
from hypersphere.geometry import angle, squared_chord
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.logsumexp import LogSumObjective, energy_of, logsumexp_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, choice, flag, number


def against(alignment: Tensor, others: Tensor) -> Statistics:
    """log(e^{-alignment} + e^{others}) + alignment: the positive against the rest, and its two parts."""
    return {
        # log(1 + exp(others + alignment)) keeps its digits when the loss is tiny; the difference of the two
        # logarithms does not.
        "loss": softplus(others + alignment, threshold=50),
        "alignment": alignment,
        "energy": torch.logaddexp(others, -alignment),
    }


class SoftmaxObjective(LogSumObjective):
    """-log of the positive's share in a softmax over the positive and the negatives."""

    temperature: float = number(default=0.05, above=0, learnable=True, tune=TEMPERATURES)

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        return against(-positive / self.temperature, logsumexp)


POOLS: dict[str, Any] = {  # what ``negatives`` of the objective is; "both" is "cross" and "same" in one
    "cross": "cross",
    "same": "both",
    "other": ("cross", "other"),
    "back": ("cross", "back"),
    "all": ("both", "other"),
    "gte": ("both", "other", "back"),
}


@register("infonce")
class InfoNCE(SoftmaxObjective):
    """Cross-entropy of picking the positive among all keys of the other view.

    L_i = -log( e^{s_ii/τ} / Σ_j e^{s_ij/τ} ), mean over anchors; ``symmetric`` averages rows and columns.
    pool: "cross": the keys are the other view. The softmax also counts, of other instances, x_i·x_j ("same"), y_i·y_j
    ("other") or both ("all"; with ``guided`` this is GISTEmbed); y_i·x_j, and the positive a second time ("back"); or
    all of these ("gte"), as Li et al. 2023 (GTE) print it. The extra negatives count once, against x_i.
    hardness β: the logit of a negative is s_ij/τ + β sg(s_ij), so that hard ones weigh more; pool "cross" only.
    extra_negatives: the anchors that the ``negatives=`` of a call are contrasted with, if symmetric. "first": the rows
    of z1 alone, for which they are keys as z2 is; sentence-transformers (MultipleNegativesRankingLoss with directions
    query_to_doc and doc_to_query) treats hard negatives so. "both": the rows of z2 too.

    Source: SimCSE (Gao et al. 2021); L_cl in Nie et al. 2023; L^info in Li et al. 2024; symmetric: CLIP; hardness: Lan
    et al. 2025, Eq. 5.
    Use it when in doubt: it is the reference all others are compared with. It needs many negatives and its gradient
    dissipates once an anchor's gap exceeds τ log(N-1).
    Relations: softplus of ``dcl``; ``ntxent`` adds the anchor's own view to the denominator; ``arccon`` with angle 0.

    >>> x = torch.eye(4)
    >>> round(InfoNCE(temperature=1.0)(x, x).item(), 6)
    0.743668
    """

    source = "Gao et al. 2021; Nie et al. 2023"
    symmetric: bool = flag(default=False)
    pool: str = choice(*POOLS, default="cross")
    hardness: float = number(default=0.0, at_least=0)
    extra_negatives: str = choice("first", "both", default="first")  # type: ignore[misc]
    without_extra = ("other", "back")

    @property
    def anchors(self) -> str:
        return "both" if self.symmetric else "first"

    @property
    def negatives(self) -> Any:
        return POOLS[self.pool]

    def check(self) -> None:
        if self.hardness and self.pool != "cross":
            raise ValueError(f"infonce's hardness concerns the other view: its pool must be 'cross', not {self.pool!r}")

    @property
    def scale(self) -> Any:
        return None if self.hardness else super().scale

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Statistics:
        logits = negatives / self.temperature + self.hardness * negatives.detach()
        return against(-positive / self.temperature, masked_logsumexp(logits, mask))

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        if self.pool in ("back", "gte"):
            logsumexp = (*logsumexp, positive / self.temperature)
        others = logsumexp_of(logsumexp) if isinstance(logsumexp, tuple) else logsumexp
        return super().from_logsumexp(positive, others, num_negatives)


@register("ntxent")
class NTXent(SoftmaxObjective):
    """Cross-entropy of picking the positive among all other rows of both views.

    l_i = -z_i·z_j(i)/τ + log Σ_{a≠i} e^{z_i·z_a/τ} over the 2N stacked rows, mean over 2N.

    Source: SimCLR (Chen et al. 2020); Li & Pimentel-Alarcón 2024, Eq. 1 (there as a sum).
    Use it for images with strong augmentation, at a higher temperature than ``infonce``.
    Relations: ``dcl`` with negatives both drops the positive from the denominator; ``supcon`` without labels.

    >>> x = torch.eye(4)
    >>> round(NTXent(temperature=1.0)(x, x).item(), 5)
    1.16542
    """

    source = "Chen et al. 2020; Li & Pimentel-Alarcón 2024, Eq. 1"
    negatives = "both"
    anchors = "both"
    temperature: float = number(default=0.5, above=0, learnable=True, tune=TEMPERATURES)


@register("arccon")
class ArcCon(LogSumObjective):
    """InfoNCE whose positive must win although its angle is enlarged.

    L_i = -log( e^{cos(θ_ii'+u)/τ} / (e^{cos(θ_ii'+u)/τ} + Σ_{j≠i} e^{s_ij/τ}) ), u = ``angle`` in radians.

    Source: ArcCSE (Zhang et al. 2022); Li et al. 2024, Table 1.
    Use it to pull positives closer than InfoNCE does: its ratio is sin(θ+u)/sin θ > 1.
    Relations: angle 0 is ``infonce``; never below it while θ+u ≤ π.

    >>> x = torch.eye(4, dtype=torch.float64)
    >>> round(ArcCon(temperature=1.0, angle=0.5)(x, x).item(), 5)
    0.80976
    """

    source = "Zhang et al. 2022; Li et al. 2024, Table 1"
    temperature: float = number(default=0.05, above=0, learnable=True, tune=TEMPERATURES)
    angle: float = number(default=pi / 18, at_least=0, at_most=pi, tune=(0.02, 0.5))

    @property
    def farthest(self) -> float:
        return -inf if self.angle < pi / 2 else inf  # c cos u - … falls without end

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        squared = squared_chord(positive)
        sine = (squared * (1 - squared / 4)).clamp_min(1e-12).sqrt()  # its derivative at 0 is infinite
        alignment = -(positive * cos(self.angle) - sine * sin(self.angle)) / self.temperature
        return against(alignment, logsumexp)


@register("debiased")
class Debiased(LogSumObjective):
    """NT-Xent corrected for negatives that are positives in truth.

    L_i = -log( p / (p + G) ), p = e^{z_i·z_j(i)/τ}, G = max( (Σ_neg e^{z_i·z_a/τ} - τ⁺ M p) / (1-τ⁺), M e^{-1/τ} ),
    M negatives; ``prior`` τ⁺ is the probability that a negative shares the anchor's class. Mean over 2N anchors.

    Source: Chuang et al. 2020, with the floor of their code.
    Use it with few classes, where a random negative is often of the anchor's own class.
    Relations: prior 0 is ``ntxent``.

    >>> x = torch.eye(4)
    >>> round(Debiased()(x, x).item(), 6)
    0.211531
    """

    source = "Chuang et al. 2020"
    negatives = "both"
    anchors = "both"
    temperature: float = number(default=0.5, above=0, learnable=True, tune=TEMPERATURES)
    prior: float = number(default=0.1, at_least=0, below=1, tune=(0.01, 0.3))

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        scale, exists = 1 / self.temperature, num_negatives > 0
        number_of, others = num_negatives.clamp_min(1).to(positive), energy_of(logsumexp, num_negatives)
        own = positive * scale
        # log(Σ - τ⁺ M p) without leaving logarithms; where it is not positive the floor decides.
        share = torch.exp((own + (self.prior * number_of).log() - others).clamp_max(0.0)) if self.prior else 0 * own
        left = torch.where(share < 1, 1 - share, 1)
        rest = torch.where(share < 1, others + left.log() - log1p(-self.prior), -torch.inf)
        energy = torch.where(exists, torch.maximum(rest, number_of.log() - scale), -inf)
        return {
            "loss": softplus(energy - own, threshold=50),
            "alignment": -own,
            "energy": torch.logaddexp(energy, own),
        }


@register("geodesic")
class Geodesic(PairwiseObjective):
    """NT-Xent on angles: similarity falls linearly with the geodesic distance.

    l_i = θ_i,j(i)/τ + log Σ_{a≠i} e^{-θ_ia/τ} over the 2N stacked rows, mean over 2N.

    Source: Koishekenov et al. 2023 (GCL); the scaling is ours.
    Use it where the flat top of the cosine hides differences between close pairs.
    Relations: ``ntxent`` with -θ for the cosine.

    >>> x = torch.eye(4, dtype=torch.float64)
    >>> round(Geodesic(temperature=1.0)(x, x).item(), 5)
    0.80972
    """

    source = "Koishekenov et al. 2023"
    negatives = "both"
    anchors = "both"
    farthest = -1.0
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        scale = 1 / self.temperature
        alignment = angle(positive) * scale
        others = masked_logsumexp(-angle(negatives), mask, scale)
        return against(alignment, others)
