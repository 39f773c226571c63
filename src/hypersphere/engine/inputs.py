"""What one call of an objective is given: its views, and what is known of their rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from torch import Tensor


@dataclass(frozen=True)
class GuideRule:
    """Which columns a guide drops: those it finds more similar to the anchor than a threshold t_i.

    With own_i the guide's cosine of the anchor and its positive: t_i = own_i - margin ("absolute"), or
    own_i - margin · |own_i| ("relative"). reads: the matrices the guide judges, "extra" for the extra negatives.
    """

    margin: float = 0.0
    strategy: str = "absolute"
    reads: tuple[str, ...] = ("cross", "same", "other", "extra")


@dataclass(frozen=True)
class Inputs:
    """The tensors of a call. Those without a comment on gradients carry none."""

    z1: Tensor  # (N, D) raw rows of the first view, with gradient
    z2: Tensor  # (N, D) of the second view, with gradient
    labels: Tensor | None = None  # (N,) -1: unlabelled
    negatives: Tensor | None = None  # (M, D) further columns, or (N, M, D) each anchor's own, with gradient
    views: tuple[Tensor, ...] = ()  # (N, D) each: the third view and those after it, with gradient
    ids: Tensor | None = None  # (N,) rows of equal ids are no negatives of each other; -1: equal to nothing
    ids_negatives: Tensor | None = None  # (M,) or (N, M)
    guide: Tensor | tuple[Tensor, ...] | None = None  # (N, G) of all views, or one for each
    guide_negatives: Tensor | None = None  # (M, G)
    scores: Tensor | None = None  # (N,) how similar the two rows of an instance are
    in_batch: bool = True  # the other instances of the batch are negatives too
    rule: GuideRule = GuideRule()

    @property
    def all_views(self) -> tuple[Tensor, ...]:
        return self.z1, self.z2, *self.views

    @property
    def constants(self) -> list[Tensor | None]:
        """The tensors that carry no gradient."""
        guides = [self.guide] if self.guide is None or isinstance(self.guide, Tensor) else list(self.guide)
        return [self.labels, self.ids, self.ids_negatives, *guides, self.guide_negatives, self.scores]

    def exchanged(self) -> Inputs:
        """The same with the first two views in each other's place."""
        guide = self.guide if self.guide is None or isinstance(self.guide, Tensor) else self.guide[::-1]
        return replace(self, z1=self.z2, z2=self.z1, guide=guide)

    @property
    def given(self) -> list[str]:
        """The names of the optional arguments that are there."""
        values = ((name, getattr(self, name)) for name in OPTIONAL)
        return [name for name, value in values if value is not None and value != ()]


OPTIONAL = tuple(each.name for each in fields(Inputs)[2:-2])  # the arguments that a call may leave out
