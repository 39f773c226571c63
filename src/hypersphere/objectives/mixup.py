"""Mixup: negatives made of other vectors, one for each anchor, on top of any objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from hypersphere.engine import Anchors, Statistics
from hypersphere.engine.batch import weighed
from hypersphere.objectives.base import Objective, PairwiseObjective
from hypersphere.objectives.registry import as_objective, register
from hypersphere.objectives.settings import Setting, anything, choice, flag, number


@dataclass(frozen=True)
class Lens:
    """A pairwise objective as the engine sees it, with more columns than it knows of."""

    inner: PairwiseObjective
    mix: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # all else is the objective's own

    def evaluate(self, *batch: Any, **how: Any) -> Statistics:
        seen: Any = self
        found: Statistics = type(self.inner).evaluate(seen, *batch, **how)
        return found

    def log_sums(self) -> None:
        return None  # a mixed column is an anchor's own


@dataclass(frozen=True)
class MixedNegatives(Lens):
    """One more column in every matrix the objective reads.

    The column stands for a mixed instance: the same two instances are mixed in each matrix, in that matrix's view.
    """

    kind: str
    normalize: bool

    def prepare(self, x: Tensor, y: Tensor) -> Any:
        keys = {"cross": (y,), "same": (x,), "other": (y,), "both": (y, x)}
        columns = [keys[read][0] if len(keys[read]) == 1 else torch.cat(keys[read]) for read in self.inner.reads]
        return columns, len(x), self.inner.prepare(x, y)

    def block(self, anchors: Anchors) -> Statistics:
        columns, size, context = anchors.context
        partners, exists = self.partners(anchors, len(columns[0]), size)
        wider = [
            torch.cat([matrix, self.similarity(anchors, keys, partners, read == "other")], dim=1)
            for read, matrix, keys in zip(self.inner.reads, anchors.negatives, columns, strict=True)
        ]
        more = replace(
            anchors,
            negatives=tuple(wider),
            mask=torch.cat([anchors.mask, exists.unsqueeze(1)], dim=1),
            relatives=None if anchors.relatives is None else pad(anchors.relatives, (0, 1), value=False),
            context=context,
        )
        return self.inner.block(more)

    def partners(self, anchors: Anchors, columns: int, size: int) -> tuple[Tensor, Tensor]:
        """The two columns (B, 2) that are mixed, and whether (B,) there is any to mix; in a mix with the positive it
        takes the place of the first. An only negative is mixed with itself."""
        # Extra negatives, which stand behind the batch's own columns, are not mixed, nor are further positives.
        usable = anchors.mask if anchors.relatives is None else anchors.mask & ~anchors.relatives
        if size == 1:  # the batch has no other instance
            return anchors.places.new_zeros(len(usable), 2), usable.new_zeros(len(usable))
        if self.kind == "positive":
            ahead = torch.arange(1, 2 if anchors.relatives is None else size, device=usable.device)
            following = (anchors.places.unsqueeze(1) + ahead) % size
            steps = usable.gather(1, following).to(torch.uint8).argmax(dim=1, keepdim=True)  # to the first one
            chosen = following.gather(1, steps)
            return chosen.expand(-1, 2), usable.gather(1, chosen).squeeze(1)
        known = torch.where(usable, anchors.negatives[0].detach(), -torch.inf)[:, :columns]
        values, chosen = known.topk(min(2, columns - columns // size), dim=1)
        second = torch.where(values[:, -1] > -torch.inf, chosen[:, -1], chosen[:, 0])
        return torch.stack([chosen[:, 0], second], dim=1), values[:, 0] > -torch.inf

    def similarity(self, anchors: Anchors, keys: Tensor, partners: Tensor, of_other: bool) -> Tensor:
        """Of the anchors (of their other views if ``of_other``) with their mixed vectors: (B, 1)."""
        rows, positive = (anchors.others, anchors.rows) if of_other else (anchors.rows, anchors.others)
        if of_other and self.inner.one_sided:
            rows = rows.detach()
        first = positive.detach() if self.kind == "positive" else keys[partners[:, 0]]
        mixed = self.mix * first + (1 - self.mix) * keys[partners[:, 1]]
        mixed = self.inner.scaled(mixed) if self.normalize else mixed
        seen: Any = self
        return (weighed(seen, rows) * mixed).sum(dim=1, keepdim=True)


@dataclass(frozen=True)
class MixCSE(Lens):
    """The columns of MixCSE's code: every instance is mixed with the next one, in either view, f(x) and f(y); an anchor
    x_i meets all f(y)_j and, as f(x)_i, all y_j. The one pair of either kind that shares an instance by 1-λ counts as
    similarity 0."""

    @property
    def reads(self) -> tuple[str, ...]:
        return ("cross", "fixed_keys", "fixed_rows")

    def fixed(self, rows: Tensor, inverse: Tensor) -> Tensor:
        """λ z_i + (1-λ) z_{i+1} of raw rows, scaled to length 1."""
        inverse = torch.where(inverse > 0, inverse, 1.0)  # a row of zeros
        following = inverse.roll(-1, 0)
        larger = torch.maximum(inverse, following)
        mixed = self.mix * (following / larger) * rows + (1 - self.mix) * (inverse / larger) * rows.roll(-1, 0)
        return self.inner.scaled(mixed)

    def block(self, anchors: Anchors) -> Statistics:
        size, columns = anchors.negatives[1].shape[1], anchors.mask.shape[1]
        wider = torch.cat(anchors.negatives, dim=1)
        lines = torch.arange(len(wider), device=wider.device)
        # f(y)_{i-1} is made of y_i, and f(x)_i of x_{i+1}, by 1-λ.
        wider[lines, columns + (anchors.places - 1) % size] = 0
        wider[lines, columns + size + (anchors.places + 1) % size] = 0
        mask = pad(anchors.mask, (0, 2 * size), value=size > 1)  # one instance has no next one to be mixed with
        return self.inner.block(replace(anchors, negatives=(wider,), mask=mask))


@register("mixup")
class Mixup(Objective):
    """Any objective that has negatives, with one more for each anchor, mixed from two other vectors.

    kind "negatives": λ n_1 + (1-λ) n_2 of the anchor's hardest and second hardest negatives, λ = ``mix``;
    kind "positive": λ y_i + (1-λ) n of its positive and the next instance's vector.
    Where labels make further positives (``supcon``) these are not mixed: the hardest and the next instance are looked
    for among the others. An only negative is mixed with itself; an anchor without any gets no mixed one.
    ``normalize`` scales the mix to length 1 (in hyperbolic space: back onto the hyperboloid). Mixed vectors carry no
    gradient. A base that reads several similarity matrices sees the same two instances mixed in each of them.

    variant "released" (kind positive, normalised, on a base that reads cross similarities) is MixCSE's code: an anchor
    x_i meets the mixes of all instances, f(y)_j, and all y_j meet its own mix f(x)_i; raw rows are mixed; where a mix
    has 1-λ of the positive its similarity is set to 0 instead of left out, which adds e^0 to a denominator.

    Source: Nie et al. 2023, Appendix E (both types); MixCSE (Zhang et al. 2022) for kind positive, normalised.
    Use it when negatives are too easy. Un-normalised, a mix of negatives is never harder than the hardest of them.
    Relations: the base is a name, a mapping {"name": …, parameters…}, or an objective; around ``cloa`` or
    ``hyperbolic`` it mixes for the objectives inside. ``barlow`` and ``vicreg`` have no negatives.

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
    mix: float = number(default=0.2, at_least=0, at_most=1, tune=(0.05, 0.5))
    normalize: bool = flag(default=False)
    variant: str = choice("paper", "released", default="paper")

    def check(self) -> None:
        if self.variant == "released" and (self.kind, self.normalize) != ("positive", True):
            raise ValueError("mixup's variant 'released' is MixCSE's code: it needs kind='positive' and normalize=True")

    def build(self) -> None:
        base = as_objective(self.base, "mixup's base", gather=self.gather, **self.passed_on())
        if not isinstance(base, Objective) or isinstance(base, Mixup):
            raise ValueError(f"mixup needs one of hypersphere's other objectives as its base, not {base!r}")
        base.seen_through(self.lens)  # says why, if there is nothing to mix
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
        self.base.gather, self.base.reduction = self.gather, self.reduction

    @property
    def raw_rows(self) -> bool:
        return bool(self.base.raw_rows)

    @property
    def dim(self) -> int:
        """The width that a ``cloa`` inside is made for; other bases have none."""
        return int(self.base.dim)

    def lens(self, part: PairwiseObjective) -> Lens:
        if self.variant == "paper":
            return MixedNegatives(part, self.mix, self.kind, self.normalize)
        if part.reads != ("cross",) or part.labelled or part.rows is not None:
            raise ValueError(
                f"mixup's variant 'released' is for a base of cosines between the two views, which {part.name} is not"
            )
        return MixCSE(part, self.mix)

    def evaluate(
        self, z1: Tensor, z2: Tensor, labels: Tensor | None, negatives: Tensor | None, parts: bool
    ) -> Statistics:
        found: Statistics = self.base.seen_through(self.lens).evaluate(z1, z2, labels, negatives, parts)
        return found
