"""Two objectives at once: any base, and a weight times another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

from hypersphere.engine import Inputs, Statistics
from hypersphere.objectives.base import Objective
from hypersphere.objectives.registry import as_objective, register
from hypersphere.objectives.settings import anything, number
from hypersphere.objectives.wrapper import Wrapper

USUAL: dict[str, Any] = {each.name: each.default for each in fields(Inputs)}


@register("plus")
class Plus(Wrapper):
    """Any objective plus a weight times another one.

    L = L_base + weight · L_extra. Labels reach both parts; all else that a call gives reaches the parts that can use
    it, and further views must be of use to both.
    Both parts sum their anchors if the reduction is "sum", unless ``extra`` is an objective, a mapping with a reduction
    of its own, or has no anchors to sum.

    Source: regularisers of this kind are those of DINOv2 (``koleo``) and EmbeddingGemma (``gor``).
    Use it to add a regulariser that aligns nothing, such as ``koleo`` or ``gor``, to a base that aligns.
    Relations: weight 0 is the base. ``cloa`` adds the pull of labelled rows towards anchors.

    >>> import torch
    >>> objective = Plus(base="infonce", extra="koleo", weight=0.1)
    >>> objective
    Plus(base=InfoNCE(temperature=0.05, symmetric=False), extra=KoLeo(eps=1e-08), weight=0.1)
    >>> parts = objective.terms(torch.eye(4), torch.eye(4))
    >>> round(parts["extra"].item(), 6)
    -0.034657
    """

    source = "Oquab et al. 2024"
    final: ClassVar[tuple[str, ...]] = ("base", "extra")
    reductions = ("mean", "sum")
    nature = "is a sum of two objectives that cannot use it"
    extra: Any = anything(default="koleo")
    weight: float = number(default=1.0, at_least=0, tune=(0.01, 10.0))

    def build(self) -> None:
        super().build()
        if self.reduction == "none":
            raise ValueError(f"plus adds to one number, but its base {self.base!r} gives one for each anchor")
        given = self.extra
        extra: Any = as_objective(given, "plus's extra", gather=self.gather)
        if not isinstance(extra, Objective):
            raise ValueError(f"plus adds one of hypersphere's objectives to its base, not {extra!r}")
        if extra.gather != self.gather:
            raise ValueError(f"plus has gather={self.gather} but its extra {extra!r} has not")
        if extra.reduction == "none":
            raise ValueError(f"plus adds one number to its base, but its extra {extra!r} gives one for each anchor")
        own = isinstance(given, Mapping) and "reduction" in given
        self._reduces_extra = not (own or given is extra) and "sum" in extra._possible_reductions()
        self.extra = extra
        self.follow()

    def check_base(self, base: Any) -> None:
        if not isinstance(base, Objective):
            raise ValueError(f"plus needs one of hypersphere's objectives as its base, not {base!r}")

    def follow(self) -> None:
        super().follow()
        self.extra.gather = self.gather
        if self._reduces_extra:
            self.extra.reduction = self.reduction

    @property
    def takes(self) -> Any:
        either, both = self.base.takes | self.extra.takes, self.base.takes & self.extra.takes
        return either if "views" in both else either - {"views"}

    @property
    def needs(self) -> Any:
        return self.base.needs | self.extra.needs

    @property
    def raw_rows(self) -> bool:
        return bool(self.base.raw_rows or self.extra.raw_rows)

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        self.refuse_unused(inputs)
        base, extra = (part.evaluate(usable_by(part, inputs), terms=False)["loss"] for part in (self.base, self.extra))
        for value in (base, extra):
            if value.ndim:
                raise ValueError(f"plus adds two numbers, but a part of it gives {tuple(value.shape)}")
        weighted = self.weight * extra.to(base)
        return {"loss": base + weighted, **({"base": base, "extra": weighted} if terms else {})}


def usable_by(part: Any, inputs: Inputs) -> Inputs:
    """The inputs without the arguments that an objective cannot use."""
    unused = [
        name
        for name in inputs.given
        if name != "labels" and name not in part.takes and name.removesuffix("_negatives") not in part.takes
    ]
    unused += [] if inputs.in_batch or "negatives" in part.takes else ["in_batch"]
    return replace(inputs, **{name: USUAL[name] for name in unused}) if unused else inputs
