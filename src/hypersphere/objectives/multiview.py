"""Objectives of several views of each instance, and any two-view objective on all pairs of views."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import log
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Inputs, Statistics
from hypersphere.objectives.infonce import against
from hypersphere.objectives.logsumexp import LogSumObjective, energy_of, logsumexp_of
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, choice, number
from hypersphere.objectives.wrapper import Wrapper


class MultiView(LogSumObjective):
    """A term for each instance, from its positives in all views and the sums over its negatives in each view."""

    anchors = "both"
    fewest = 2
    takes = LogSumObjective.takes | {"views"}

    def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Statistics:
        return {"positives": positive / self.temperature, "negatives": logsumexp, "number": num_negatives}

    def adjust(self, statistics: Statistics, anchors: Anchors) -> Statistics:
        """``positives`` becomes log Σ_w e^{u_iv·u_iw/τ} over all other views w; with two views it is as it was."""
        further = [(anchors.rows * z).sum(dim=1) / self.temperature for z in anchors.other_views[1:]]
        return {**statistics, "positives": torch.stack([statistics["positives"], *further]).logsumexp(dim=0)}

    def join(self, by_direction: list[Statistics]) -> Statistics:
        positives = torch.stack([each["positives"] for each in by_direction]).logsumexp(dim=0)
        return self.of_instances(positives, by_direction)

    def of_instances(self, positives: Tensor, by_view: list[Statistics]) -> Statistics:
        """The losses (N,) from log Σ_{v≠w} e^{u_iv·u_iw/τ} (N,) and the statistics of each view."""
        raise TypeError(f"{type(self).__name__} must define of_instances")


@register("mv_infonce")
class MultiViewInfoNCE(MultiView):
    """InfoNCE of several views at once: all positives of an instance against all that it is compared with.

    L_i = -log( Σ_{v≠w} e^{u_iv·u_iw/τ} / Z_i ), u_iv instance i in view v, ordered pairs of views.
    denominator: "all": Z_i = Σ_v Σ_{(w,j)≠(v,i)} e^{u_iv·u_jw/τ}, the anchor's own view too, as in the authors' code;
    "other": w ≠ v only, j = i included, as it is printed.

    Source: Koromilas et al. 2025 (MV-InfoNCE).
    Use it with three or more views, where ``pairwise`` treats each pair of views as if there were no others.
    Relations: with two views never below ``ntxent`` ("all") or symmetric ``infonce`` ("other"), and equal if the sums
    of both directions agree. ``mv_dhel`` decouples alignment and energy.

    >>> x = torch.eye(4)
    >>> round(MultiViewInfoNCE(temperature=1.0)(x, x, views=(x,)).item(), 5)
    0.97662
    """

    source = "Koromilas et al. 2025"
    temperature: float = number(default=0.5, above=0, learnable=True, tune=TEMPERATURES)
    denominator: str = choice("all", "other", default="all")

    @property
    def negatives(self) -> Any:
        return "both" if self.denominator == "all" else "cross"

    def of_instances(self, positives: Tensor, by_view: list[Statistics]) -> Statistics:
        return against(-positives, logsumexp_of([each["negatives"] for each in by_view]))


@register("mv_dhel")
class MultiViewDHEL(MultiView):
    """DHEL of several views: all positives of an instance together, and the energy of each view by itself.

    L_i = -log Σ_{v<w} e^{u_iv·u_iw/τ} + Σ_v log Σ_{j≠i} e^{u_iv·u_jv/τ}.
    pairs: "unordered" (v < w, the authors' code) or "ordered" (v ≠ w, as it is printed), which is lower by log 2.

    Source: Koromilas et al. 2025 (MV-DHEL).
    Use it as ``mv_infonce``, at a cost that grows with the number of views, not with its square.
    Relations: with two views it is ``dhel`` with energy both.

    >>> x = torch.eye(4)
    >>> round(MultiViewDHEL(temperature=1.0)(x, x, views=(x,)).item(), 5)
    1.19722
    """

    source = "Koromilas et al. 2025"
    negatives = "same"
    temperature: float = number(default=0.5, above=0, learnable=True, tune=TEMPERATURES)
    pairs: str = choice("unordered", "ordered", default="unordered")

    def of_instances(self, positives: Tensor, by_view: list[Statistics]) -> Statistics:
        alignment = -positives + (log(2) if self.pairs == "unordered" else 0)
        energy = torch.stack([energy_of(each["negatives"], each["number"]) for each in by_view]).sum(dim=0)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}


@register("pairwise")
class Pairwise(Wrapper):
    """Any two-view objective on several views: its mean over all pairs of views.

    L = mean over v < w of base(z_v, z_w). Labels, ids, a guide and extra negatives reach the base.

    Source: the pairwise baseline of Koromilas et al. 2025; SwAV and DINO average over pairs of crops in this way.
    Use it to give further views to an objective that was written for two.
    Relations: with two views it is the base. ``mv_infonce`` and ``mv_dhel`` see all views of an instance together.

    >>> x = torch.eye(4)
    >>> objective = Pairwise(base={"name": "ntxent", "temperature": 1.0})
    >>> round(objective(x, x, views=(x,)).item(), 5)
    1.16542
    """

    source = "Koromilas et al. 2025"

    @property
    def takes(self) -> Any:
        return self.base.takes | {"views"}

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        views, guide = inputs.all_views, inputs.guide
        by_view = guide if isinstance(guide, (tuple, list)) else None
        if by_view is not None and len(by_view) != len(views):
            raise ValueError(f"guide must be one tensor, or one for each of the {len(views)} views, not {len(by_view)}")
        values = []
        for v, w in combinations(range(len(views)), 2):
            of_pair = guide if by_view is None else (by_view[v], by_view[w])
            pair = replace(inputs, z1=views[v], z2=views[w], views=(), guide=of_pair)
            values.append(self.base.evaluate(pair, terms))
        return {name: torch.stack([each[name] for each in values]).mean(dim=0) for name in values[0]}
