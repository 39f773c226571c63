"""CLOA: orthonormal anchors, one for each class, on top of any objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.engine import Anchors, Inputs, Statistics
from hypersphere.engine.distributed import agree_on_labels, exchange, world_size
from hypersphere.geometry import unit
from hypersphere.objectives.base import Objective, PairwiseObjective
from hypersphere.objectives.registry import as_objective, register
from hypersphere.objectives.settings import Setting, anything, choice, number


def orthonormal_anchors(num_classes: int, dim: int, seed: int) -> Tensor:
    """``num_classes`` orthonormal rows in R^dim, the same for the same seed.

    >>> c = orthonormal_anchors(3, 8, seed=0)
    >>> torch.allclose(c @ c.T, torch.eye(3), atol=1e-6)
    True
    """
    generator = torch.Generator().manual_seed(seed)
    random = torch.randn(dim, num_classes, generator=generator, dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(random).Q
    return basis.T.to(torch.float32).contiguous()


class AnchorRegression(PairwiseObjective):
    """The distance of each labelled row to its anchor, summed over both views: offset - cos(z, c_y), ‖z-c_y‖ or
    Σ_k |z_k-c_yk| of unit rows."""

    name = "anchor_regression"
    negatives = ()
    anchors = "both"
    reduction: str = choice("sum", default="sum")
    offset: float = 1.0
    distance: str = choice("cosine", "euclidean", "manhattan", default="cosine")

    def __init__(self, directions: Tensor, **common: Any) -> None:
        super().__init__(**common)
        self.directions: Tensor
        self.register_buffer("directions", directions)

    def block(self, anchors: Anchors) -> Statistics:
        labels = anchors.labels
        assert labels is not None
        directions = unit(self.directions.to(anchors.rows))  # of length 1 in the precision at hand
        own = directions[labels.clamp_min(0)]
        if self.distance == "cosine":
            distances = self.offset - (anchors.rows * own).sum(dim=1)
        elif self.distance == "euclidean":
            squared = (anchors.rows - own).square().sum(dim=1)
            distances = torch.where(squared > 0, squared, 1).sqrt() * (squared > 0)  # of gradient 0 at the anchor
        else:
            distances = (anchors.rows - own).abs().sum(dim=1)
        return {"loss": torch.where(labels >= 0, distances, 0)}


@register("cloa")
class CLOA(Objective):
    """Any base objective, plus the pull of each labelled row towards the anchor of its class.

    L = L_base + weight · mean over labelled rows and both views of (1 - cos(z, c_y)); c_1 … c_k are orthonormal,
    fixed by the seed. Labels of -1 are unlabelled and take part in the base only.
    distance: "cosine", 1 - cos; "euclidean", ‖z-c_y‖; "manhattan", Σ_k |z_k-c_yk|, all of unit rows (CLOP).
    reduction "sum" is the paper's, Eq. 1 + 2: it adds up the labelled rows of both views, and the anchors of the base,
    unless the base is a module or a mapping with a reduction of its own.

    Source: Li & Pimentel-Alarcón 2024, Eq. 1 and 2 (there sums, on ``ntxent``; the mean is that of the authors' code).
    Use it when some labels are known and the base collapses at a large learning rate: at a collapsed point the
    anchors still pull every class but one apart.
    Relations: weight 0 is the base. CLOP (arXiv 2403.18699v2) is this with any of the distances. The base is a name, a
    mapping {"name": …, parameters…}, or any module called with two views.

    >>> objective = CLOA(base={"name": "ntxent", "temperature": 0.2}, num_classes=2, dim=4)
    >>> objective
    CLOA(base=NTXent(temperature=0.2), num_classes=2, dim=4, weight=1.0, seed=0, distance='cosine')
    >>> x = objective.anchors.repeat(2, 1)
    >>> parts = objective.terms(x, x, torch.tensor([0, 1, -1, 1]))
    >>> round(parts["anchors"].item(), 6)
    0.0
    """

    source = "Li & Pimentel-Alarcón 2024, Eq. 2"
    final = ("base", "num_classes", "dim", "seed")
    reductions = ("mean", "sum")
    base: Any = anything(default="ntxent")
    num_classes: int = number(at_least=1, whole=True)
    dim: int = number(at_least=1, whole=True)
    weight: float = number(default=1.0, at_least=0, tune=(0.1, 10.0))
    seed: int = number(default=0, at_least=0, whole=True)
    distance: str = choice("cosine", "euclidean", "manhattan", default="cosine")

    def build(self) -> None:
        if self.num_classes > self.dim:
            raise ValueError(f"cloa cannot have {self.num_classes} orthonormal anchors in {self.dim} dimensions")
        given = self.base
        self.base: nn.Module = as_objective(given, "cloa's base", gather=self.gather, **self.passed_on())
        self._reduces_base = isinstance(given, str) or (isinstance(given, Mapping) and "reduction" not in given)
        if isinstance(self.base, Objective) and self.base.gather != self.gather:
            raise ValueError(f"cloa has gather={self.gather} but its base {self.base!r} has not")
        if isinstance(self.base, Objective) and self.base.reduction == "none":
            raise ValueError(f"cloa adds its pull to one number, but its base {self.base!r} gives one for each anchor")
        self._foreign = not isinstance(self.base, Objective)
        directions = orthonormal_anchors(self.num_classes, self.dim, self.seed)
        self.regression = AnchorRegression(directions)
        self.follow()

    def _learn(self, settings: dict[str, Setting]) -> None:
        """Learns nothing here: all learned parameters belong to the base."""

    def recheck(self, changed: str) -> None:
        if changed == "reduction":
            self._given.add(changed)
        super().recheck(changed)

    def follow(self) -> None:
        self.regression.gather, self.regression.distance = self.gather, self.distance
        if isinstance(self.base, Objective):
            self.base.gather = self.gather
            if self._reduces_base and "reduction" in self._given:
                self.base.reduction = self.reduction

    @property
    def takes(self) -> Any:
        return getattr(self.base, "takes", frozenset())

    @property
    def needs(self) -> Any:
        return getattr(self.base, "needs", frozenset())

    @property
    def raw_rows(self) -> bool:
        return bool(getattr(self.base, "raw_rows", False))

    @property
    def anchors(self) -> Tensor:
        """The orthonormal rows (num_classes, dim)."""
        return self.regression.directions

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        z1, z2, labels = inputs.z1, inputs.z2, inputs.labels
        if world_size(self.gather) > 1:
            agree_on_labels(labels)
        if not self._foreign:
            values: Statistics = self.base.evaluate(inputs, terms)
        else:
            for name in inputs.given:
                if name != "labels":
                    raise ValueError(f"cloa cannot hand {name} to a base that is not one of hypersphere's objectives")
            values = {"loss": self.base(z1, z2)}
        if values["loss"].ndim:
            raise ValueError(f"cloa adds its pull to one number, but its base gives {tuple(values['loss'].shape)}")
        if labels is None:
            return values
        if z1.shape[1] != self.dim:
            raise ValueError(f"cloa's anchors have {self.dim} dimensions but the views have {z1.shape[1]}")
        labelled = self._labelled(labels)
        pull = self.regression(z1, z2, labels) * (
            self.weight if self.reduction == "sum" else self.weight / max(1, 2 * labelled)
        )
        return {**values, "loss": values["loss"] + pull, "anchors": pull} if terms else {"loss": values["loss"] + pull}

    def _labelled(self, labels: Tensor) -> int:
        """The number of labelled instances on all processes; raises on each of them if a label is no class."""
        usable = isinstance(labels, Tensor) and not labels.is_floating_point()  # if not, the engine says so
        known = labels.long() if usable else torch.empty(0)
        counts = [int((known >= 0).sum()), int((known >= self.num_classes).sum())]
        everyone = exchange(counts) if world_size(self.gather) > 1 else [counts]
        if any(unknown for _, unknown in everyone):
            raise ValueError(f"labels must be below the number of classes ({self.num_classes}), or -1")
        return sum(labelled for labelled, _ in everyone)
