"""Mixup: negatives made of other vectors, one for each anchor, on top of any objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from hypersphere.engine import Anchors, Inputs, Statistics
from hypersphere.engine.batch import apply_metric
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, flag, number
from hypersphere.objectives.wrapper import Wrapper


@dataclass(frozen=True)
class MixedNegatives:
    """A pairwise objective as the engine sees it, with one more column in every matrix it reads.

    The column stands for a mixed instance: the same two instances are mixed in each matrix, in that matrix's view.
    """

    inner: PairwiseObjective
    mix: float
    kind: str
    normalize: bool
    keeps_all: bool = False  # every other instance of the batch is a negative

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # all else is the objective's own

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        drops = inputs.ids is not None or inputs.guide is not None or self.inner.labelled
        seen: Any = replace(self, keeps_all=not drops)
        values: Statistics = type(self.inner).evaluate(seen, inputs, terms)
        return values

    @property
    def sees(self) -> str:
        return "all"  # a mixed column is an anchor's own

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        keys = {"cross": (y,), "same": (x,), "other": (y,), "back": (x,), "both": (y, x)}
        columns = [keys[read][0] if len(keys[read]) == 1 else torch.cat(keys[read]) for read in self.inner.reads]
        return columns, len(x), self.inner.prepare(x, y)

    def block(self, anchors: Anchors) -> Statistics:
        columns, size, context = anchors.context
        same = anchors.same_label
        partners, exists = self.partners(anchors, len(columns[0]), size)
        wider = [
            torch.cat([matrix, self.similarity(anchors, keys, partners, read in ("other", "back"))], dim=1)
            for read, matrix, keys in zip(self.inner.reads, anchors.negatives, columns, strict=True)
        ]
        more = replace(
            anchors,
            negatives=tuple(wider),
            masks=tuple(torch.cat([mask, exists.unsqueeze(1)], dim=1) for mask in anchors.masks),
            same_label=None if same is None else tuple(pad(each, (0, 1), value=False) for each in same),
            context=context,
        )
        return self.inner.block(more)

    def partners(self, anchors: Anchors, columns: int, size: int) -> tuple[Tensor, Tensor]:
        """The two columns (B, 2) that are mixed, and whether (B,) there is any to mix. In a mix with the positive, the
        positive replaces the first. An only negative is mixed with itself."""
        # Extra negatives, which stand behind the batch's own columns, are not mixed, nor are further positives.
        usable = anchors.masks[0] if anchors.same_label is None else anchors.masks[0] & ~anchors.same_label[0]
        if size == 1:  # the batch has no other instance
            return anchors.indices.new_zeros(len(usable), 2), usable.new_zeros(len(usable))
        if self.kind == "positive":
            following = ((anchors.indices + 1) % size).unsqueeze(1)
            if not self.keeps_all:
                following = self._following(usable[:, :size], anchors.indices)
            return following.expand(-1, 2), usable.gather(1, following).squeeze(1)
        known = torch.where(usable, anchors.negatives[0].detach(), -torch.inf)[:, :columns]
        values, chosen = known.topk(min(2, columns - columns // size), dim=1)
        second = torch.where(values[:, -1] > -torch.inf, chosen[:, -1], chosen[:, 0])
        return torch.stack([chosen[:, 0], second], dim=1), values[:, 0] > -torch.inf

    @staticmethod
    def _following(usable: Tensor, indices: Tensor) -> Tensor:
        """The first usable instance (B, 1) after each anchor, going on from the first one of the batch."""
        later = usable & (torch.arange(usable.shape[1], device=usable.device) > indices.unsqueeze(1))
        return (usable.to(torch.uint8) + later).argmax(dim=1, keepdim=True)

    def similarity(self, anchors: Anchors, keys: Tensor, partners: Tensor, of_other: bool) -> Tensor:
        """Similarities (B, 1) of the anchors, or of their other views if ``of_other``, with their mixed vectors."""
        rows, positive = (anchors.others, anchors.rows) if of_other else (anchors.rows, anchors.others)
        if of_other and self.inner.one_sided:
            rows = rows.detach()
        first = positive.detach() if self.kind == "positive" else keys[partners[:, 0]]
        mixed = self.mix * first + (1 - self.mix) * keys[partners[:, 1]]
        mixed = self.inner.scaled(mixed) if self.normalize else mixed
        seen: Any = self
        return (apply_metric(seen, rows) * mixed).sum(dim=1, keepdim=True)


@register("mixup")
class Mixup(Wrapper):
    """Any objective that has negatives, with one more for each anchor, mixed from two other vectors.

    kind "negatives": λ n_1 + (1-λ) n_2 of the anchor's hardest and second hardest negatives, λ = ``mix``;
    kind "positive": λ y_i + (1-λ) n of its positive and the next instance's vector.
    Positives that labels add (``supcon``) and rows that ids or a guide drop are not mixed: the hardest and the next
    instance are chosen from the others. An only negative is mixed with itself; an anchor without any gets no mixed one.
    ``normalize`` scales the mix to length 1 (in hyperbolic space: back onto the hyperboloid). Mixed vectors carry no
    gradient. A base that reads several similarity matrices sees the same two instances mixed in each of them.

    Source: Nie et al. 2023, Appendix E (both types); MixCSE (Zhang et al. 2022) for kind positive, normalised.
    Use it when negatives are too easy. Un-normalised, a mix of negatives is never harder than the hardest of them.
    Relations: the base is a name, a mapping {"name": …, parameters…}, or an objective; around ``cloa`` or
    ``hyperbolic`` it mixes for the objectives inside. ``barlow`` and ``vicreg`` have no negatives.
    ``released/mixcse`` is MixCSE as its code has it.

    >>> Mixup(base="infonce", kind="positive")
    Mixup(base=InfoNCE(temperature=0.05, symmetric=False), kind='positive', mix=0.2, normalize=False)
    >>> x = torch.eye(4)
    >>> round(Mixup(base={"name": "infonce", "temperature": 1.0})(x, x).item(), 5)
    0.90483
    """

    source = "Nie et al. 2023, Appendix E"
    kind: str = choice("negatives", "positive", default="negatives")
    mix: float = number(default=0.2, at_least=0, at_most=1, tune=(0.05, 0.5))
    normalize: bool = flag(default=False)

    def check_base(self, base: Any) -> None:
        super().check_base(base)
        base.map_pairwise(self.mixed)  # says why, if there is nothing to mix

    def mixed(self, part: PairwiseObjective) -> MixedNegatives:
        return MixedNegatives(part, self.mix, self.kind, self.normalize)

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        if not inputs.in_batch:
            raise ValueError("mixup mixes negatives of the batch: it takes no in_batch=False")
        if inputs.z2 is None:
            raise ValueError("mixup needs two views: give z2")
        values: Statistics = self.base.map_pairwise(self.mixed).evaluate(inputs, terms)
        return values
