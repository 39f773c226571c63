"""False negatives found by a guide, around any objective of pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from hypersphere.engine import GuideRule, Inputs, Statistics
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import anything, choice, number
from hypersphere.objectives.wrapper import Wrapper

READS = ("cross", "same", "other", "extra")


@register("guided")
class Guided(Wrapper):
    """Any objective of pairs, without the negatives that a guide holds for positives.

    With ĝ the cosine of the guide's rows, column j is no negative of anchor i if ĝ(x_i, y_j) > t_i (x_i·x_j and y_i·y_j
    are judged by their own pairs); t_i = ĝ(x_i, y_i) - ``margin`` ("absolute"), or ĝ(x_i, y_i) - margin · |ĝ(x_i, y_i)|
    ("relative"). The positive always stays. The mask carries no gradient.
    source: "given": the call's ``guide=`` holds the guide's rows, (N, G) or one for each view, and ``guide_negatives=``
    those of the extra negatives. "self": the rows themselves are the guide.
    reads: the comparisons that are judged, of "cross", "same", "other" and "extra" (with the extra negatives).

    Source: GISTEmbed (Solatorio 2024) for source given; Qwen3-Embedding (Zhang et al. 2025) for source self.
    Use it where a batch holds unlabelled positives. A call of any objective with ``guide=`` has margin 0, absolute.
    Relations: GISTEmbed is preset "gist", the rule of Qwen3-Embedding preset "qwen3". A margin of -2 drops nothing;
    raising it only drops more columns. Where duplicates are known, ``ids=`` is cheaper and certain.

    >>> Guided(base="infonce", margin=0.05)
    Guided(base=InfoNCE(temperature=0.05, symmetric=False), margin=0.05, strategy='absolute', source='given')
    >>> import torch
    >>> x, copies = torch.eye(4), torch.ones(4, 2)
    >>> Guided(base="infonce", margin=0.1)(x, x, guide=copies).item()
    0.0
    """

    margin: float = number(default=0.0, tune=(-0.2, 0.1))
    strategy: str = choice("absolute", "relative", default="absolute")
    source: str = choice("given", "self", default="given")  # type: ignore[misc]
    reads: Any = anything(default=READS)

    @classmethod
    def citation(cls) -> str:
        return "Solatorio 2024; Zhang et al. 2025"

    def check(self) -> None:
        reads = self.reads if isinstance(self.reads, (tuple, list)) else (self.reads,)
        for read in reads:
            if read not in READS:
                raise ValueError(f"guided's reads are of {', '.join(READS)}, not {read!r}")

    def check_base(self, base: Any) -> None:
        super().check_base(base)
        if "guide" not in base.takes:
            raise ValueError(f"guided's base must have negatives that can be dropped; {base!r} has none")
        if "guide" in base.needs:
            raise ValueError(f"guided's base must have no use of its own for a guide; {base!r} has")

    @property
    def takes(self) -> Any:
        return self.base.takes if self.source == "given" else self.base.takes - {"guide"}

    @property
    def needs(self) -> Any:
        return self.base.needs | {"guide"} if self.source == "given" else self.base.needs

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        values: Statistics = self.base.evaluate(self.judged(inputs), terms)
        return values

    def judged(self, inputs: Inputs) -> Inputs:
        """The inputs of the base: with the guide's rows and the rule by which they drop columns."""
        if self.source == "self":
            if inputs.guide is not None:
                raise ValueError("guided by the rows themselves (source='self') takes no guide")
            guide = tuple(z.detach() if isinstance(z, Tensor) else z for z in inputs.all_views)
            negatives = None if inputs.negatives is None else inputs.negatives.detach()
            inputs = replace(inputs, guide=guide, guide_negatives=negatives)
        reads = self.reads if isinstance(self.reads, (tuple, list)) else (self.reads,)
        return replace(inputs, rule=GuideRule(self.margin, self.strategy, tuple(reads)))
