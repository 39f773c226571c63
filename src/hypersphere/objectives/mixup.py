"""Mixup: negatives made of other vectors, one for each anchor, on top of any objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from hypersphere.engine import Anchors, Read, Statistics
from hypersphere.geometry import unit
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import as_objective, register
from hypersphere.objectives.settings import Setting, anything, choice, flag, number


@register("mixup")
class Mixup(PairwiseObjective):
    """Any pairwise objective with one more negative per anchor, mixed from two other vectors.

    kind "negatives": λ n_1 + (1-λ) n_2 of the anchor's hardest and second hardest negatives; "positive":
    λ y_i + (1-λ) n of its positive and the next instance's vector; λ = ``mix``. ``normalize`` scales the mix to length
    1. Mixed vectors carry no gradient.

    Source: Nie et al. 2023, Appendix E (both types); MixCSE (Zhang et al. 2022) for kind positive, normalised.
    Use it when negatives are too easy. Un-normalised, a mix of negatives is never harder than the hardest of them.
    Relations: the base is a name, a mapping {"name": …, parameters…}, or a pairwise objective that reads one family of
    negatives.

    >>> Mixup(base="infonce", kind="positive")
    Mixup(base=InfoNCE(temperature=0.05, symmetric=False), kind='positive', mix=0.2, normalize=False)
    >>> x = torch.eye(4)
    >>> round(Mixup(base={"name": "infonce", "temperature": 1.0})(x, x).item(), 5)
    0.90483
    """

    source = "Nie et al. 2023, Appendix E"
    final = ("base",)
    base: Any = anything(default="infonce")
    kind: str = choice("negatives", "positive", default="negatives")
    mix: float = number(default=0.2, at_least=0, at_most=1)
    normalize: bool = flag(default=False)

    def build(self) -> None:
        base = as_objective(self.base, "mixup's base", gather=self.gather, **self.passed_on())
        if not isinstance(base, PairwiseObjective) or len(base.reads) != 1:
            raise ValueError(f"mixup needs a base that reads one family of negatives; {type(base).__name__} does not")
        if base.rows is not None:
            raise ValueError(f"mixup mixes unit vectors; {type(base).__name__} works on others")
        if base.gather != self.gather:
            raise ValueError(f"mixup has gather={self.gather} but its base {base!r} has not")
        if "reduction" not in self._given:
            self.reduction = base.reduction
        elif self.reduction != base.reduction:
            if base is self.base:
                raise ValueError(f"mixup has reduction={self.reduction!r} but its base {base!r} has {base.reduction!r}")
            base.reduction = self.reduction
        self.base = base

    def _learn(self, settings: dict[str, Setting]) -> None:
        """What is learned is the base's."""

    def follow(self) -> None:
        self.inner.gather, self.inner.reduction = self.gather, self.reduction

    @property
    def inner(self) -> PairwiseObjective:
        base: PairwiseObjective = self.base
        return base

    @property
    def negatives(self) -> str:
        return str(self.inner.reads[0])

    @property
    def reads(self) -> tuple[Read, ...]:
        return self.inner.reads

    @property
    def anchors(self) -> Any:
        return self.inner.anchors

    @property
    def one_sided(self) -> Any:
        return self.inner.one_sided

    @property
    def labelled(self) -> Any:
        return self.inner.labelled

    @property
    def turns_add(self) -> Any:
        return self.inner.turns_add

    @property
    def only_similarities(self) -> bool:
        return False  # the mixed vectors are made of rows

    @property
    def coupled(self) -> bool:
        return self.inner.coupled

    def combine(self, statistics: Statistics) -> Statistics:
        return self.inner.combine(statistics)

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        return x, y, self.inner.prepare(x, y)

    def block(self, anchors: Anchors) -> Statistics:
        x, y, context = anchors.context
        similarity = (anchors.rows * self.mixed(anchors, x, y)).sum(dim=1, keepdim=True)
        more = replace(
            anchors,
            negatives=(torch.cat([anchors.negatives[0], similarity], dim=1),),
            mask=pad(anchors.mask, (0, 1), value=True),
            relatives=None if anchors.relatives is None else pad(anchors.relatives, (0, 1), value=False),
            context=context,
        )
        return self.inner.block(more)

    def mixed(self, anchors: Anchors, x: Tensor, y: Tensor) -> Tensor:
        """The mixed vectors (B, D), from the views (N, D) of the whole batch."""
        keys = {"cross": [y], "same": [x], "other": [y], "both": [y, x]}[self.negatives]
        if self.kind == "positive":
            first, second = anchors.others.detach(), keys[0][(anchors.places + 1) % len(y)]
        else:
            within = sum(len(each) for each in keys)  # extra negatives are not mixed
            known = torch.where(anchors.mask, anchors.negatives[0].detach(), -torch.inf)[:, :within]
            hardest = known.topk(min(2, within - len(keys)), dim=1).indices
            rows = torch.cat(keys)
            first, second = rows[hardest[:, 0]], rows[hardest[:, -1]]
        mixed = self.mix * first + (1 - self.mix) * second
        return unit(mixed) if self.normalize else mixed
