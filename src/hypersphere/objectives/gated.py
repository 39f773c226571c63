"""What the modified objectives of Li et al. 2024 share: only anchors move, gated, weighted, with a fixed ratio."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hypersphere.engine import (
    Anchors,
    Statistics,
    count,
    masked_logsumexp,
    masked_max,
    masked_softmax,
    masked_sum,
    weighted_sum,
)
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.log_sums import energy_of
from hypersphere.objectives.settings import TEMPERATURES, choice, number


class ModifiedObjective(PairwiseObjective):
    """Gradient of anchor x_i: d_i ( Σ_{j≠i} W_ij x_j - P_i y_i ), d_i = 1[s_ii - max_{k≠i} s_ik < m] from +gd on.

    Weights, keys and positives carry no gradient; the value Σ_i d_i (Σ_j W_ij x_i·x_j - P_i x_i·y_i) means nothing
    by itself. views "both": each view takes its turn as the anchor and the two add; "anchor": the first only.

    variant "released" is what the authors' code does instead: the gate is 1[1 - max_{k≠i} x_i·x_k < m] within the
    view, and where the ratio is fixed the positive term moves both its vectors (unless their gates are closed), so
    that the effective ratio is r(1 + κ'_i/κ_i), about 2r. variant "printed" has a misprint of the paper put back.
    """

    one_sided = True
    turns_add = True
    reductions: ClassVar[tuple[str, ...]] = ("sum", "mean")
    stages: ClassVar[tuple[str, ...]] = ("original", "+gd", "+w", "+r")

    margin: float = number(default=0.30, tune=(0.1, 0.9))
    temperature: float = number(default=0.05, above=0, tune=TEMPERATURES)
    ratio: float = number(default=1.5, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=30.0, at_least=0, tune=(3.0, 300.0))
    stage: str = choice("original", "+gd", "+w", "+r", default="+r")
    views: str = choice("both", "anchor", default="both")
    variant: str = choice("paper", "released", default="paper")
    reduction: str = choice("sum", "mean", "none", default="sum")

    def check(self) -> None:
        if self.stage not in self.stages:
            raise ValueError(f"{self.name} has no stage {self.stage!r}, only {', '.join(self.stages)}")

    @property
    def anchors(self) -> str:
        return "both" if self.views == "both" else "first"

    @property
    def gated(self) -> bool:
        return self.stage != "original"

    @property
    def weighted(self) -> bool:
        return self.stage in ("+w", "+r")

    @property
    def released(self) -> bool:
        return self.variant == "released"

    @property
    def fixed_ratio(self) -> float | None:
        """r where P_i = r Σ_j W_ij; None where P = 2/N."""
        return self.ratio if self.stage == "+r" else None

    @property
    def positives_move(self) -> bool:
        return self.released and self.fixed_ratio is not None

    @property
    def only_similarities(self) -> bool:
        return not self.positives_move

    @property
    def weigh_by(self) -> str:
        """The similarities the weights are made of."""
        return "same"

    @property
    def moved_along(self) -> str:
        """The similarities with the vectors that push the anchor."""
        return "same"

    @property
    def negatives(self) -> tuple[str, ...]:
        wanted = [self.moved_along, self.weigh_by]
        if self.gated:
            wanted += ["same"] if self.released else ["cross"]
        if self.gated and self.positives_move:
            wanted.append("other")
        return tuple(dict.fromkeys(wanted))

    def matrix(self, anchors: Anchors, name: str) -> Tensor:
        return anchors.negatives[self.negatives.index(name)]

    def gates(self, anchors: Anchors) -> tuple[Tensor, Tensor]:
        """1 where the anchor moves, and where its positive does."""
        positive = anchors.positive.detach()
        if not self.gated:
            return torch.ones_like(positive), torch.ones_like(positive)
        if not self.released:
            gate = positive - masked_max(self.matrix(anchors, "cross").detach(), anchors.mask) < self.margin
            return gate.to(positive), torch.zeros_like(positive)
        views = ("same", "other") if self.positives_move else ("same",)
        within = [1 - masked_max(self.matrix(anchors, view).detach(), anchors.mask) for view in views]
        return (within[0] < self.margin).to(positive), (within[-1] < self.margin).to(positive)

    def block(self, anchors: Anchors) -> Statistics:
        gate, other = self.gates(anchors)
        plain = self.only_similarities
        positive = anchors.positive if plain else self.similarity(anchors, anchors.others.detach())
        found = {"gate": gate, **self.push(anchors), "positive": positive}
        if self.positives_move:  # the positive's own share of the same term
            found["counterpart"] = other * self.similarity(anchors, anchors.others, anchors.rows.detach())
        return found

    def similarity(self, anchors: Anchors, others: Tensor, rows: Tensor | None = None) -> Tensor:
        """x_i·y_i as it stands in the positive term."""
        return ((anchors.rows if rows is None else rows) * others).sum(dim=1)

    def push(self, anchors: Anchors) -> Statistics:
        """Mean of x_i·x_j under the anchor's own weights, and the logarithm of its share of all weight."""
        by, mask = self.matrix(anchors, self.weigh_by).detach(), anchors.mask
        along = self.matrix(anchors, self.moved_along)
        negative = weighted_sum(masked_softmax(by, mask, self.exponent), along)
        return {
            "negative": energy_of(negative, count(mask)),
            "mass": masked_logsumexp(by, mask, self.exponent).clamp_min(torch.finfo(by.dtype).min),
        }

    @property
    def exponent(self) -> float:
        return 1 / self.temperature

    def total_weight(self, mass: Tensor) -> Tensor:
        """Σ_j W_ij of each anchor."""
        raise TypeError(f"{type(self).__name__} must define total_weight")

    def combine(self, statistics: Statistics) -> Statistics:
        weight = self.total_weight(statistics["mass"].detach())
        pull = self.pull(statistics, weight)
        gate = statistics["gate"]
        alignment = -gate * pull * statistics["positive"]
        if self.positives_move:
            moved = pull * statistics["counterpart"]
            alignment = alignment - (moved - moved.detach())  # a gradient, no value
        energy = self.times(gate) * weight * statistics["negative"]
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}

    def pull(self, statistics: Statistics, weight: Tensor) -> Tensor | float:
        """P_i of each anchor."""
        return 2 / len(weight) if self.fixed_ratio is None else self.fixed_ratio * weight

    def times(self, gate: Tensor) -> Tensor:
        """How often each anchor's energy counts."""
        return gate


class QuadraticStart(ModifiedObjective):
    """Barlow Twins and VICReg: quadratic weights at first, exponential with a global normaliser from +w on."""

    def push(self, anchors: Anchors) -> Statistics:
        if self.weighted:
            return super().push(anchors)
        weights, along = self.matrix(anchors, self.weigh_by).detach(), self.matrix(anchors, self.moved_along)
        return {
            "negative": masked_sum(weights * along, anchors.mask),
            "mass": torch.zeros_like(anchors.positive),
        }

    def total_weight(self, mass: Tensor) -> Tensor:
        if self.weighted:
            return torch.softmax(mass, dim=0)
        return torch.full_like(mass, 2 * self.weight / len(mass) ** 2)
