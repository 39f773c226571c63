"""Named components of the paradigm: functions of an anchor's similarities, with parameters of their own.

Each is called with the positive similarities (B,), the negatives (B, M) and their mask (B, M), none of which carries
a gradient. A dissipation or a ratio returns (B,), a weight (B, M).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from math import pi
from typing import Any, ClassVar

import torch
from torch import Tensor

from hypersphere.engine import (
    count,
    masked_argmax,
    masked_logsumexp,
    masked_max,
    masked_softmax,
    softmax_weighted_sum,
    weighted_sum,
)
from hypersphere.geometry import angle, chord
from hypersphere.geometry.distances import detached


@dataclass(frozen=True, repr=False)
class Component:
    """A function of an anchor's similarities that prints as its name and parameters."""

    name: ClassVar[str]

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError

    def sums(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_j w_j and Σ_j w_j s_j of a weight w. Similarities may carry a gradient; the weight does not."""
        weight = self(detached(positive), detached(negatives), mask)
        return weight.sum(dim=1), weighted_sum(weight, negatives)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields(self))})"

    @classmethod
    def create(cls, params: dict[str, Any], what: str) -> Component:
        """The component with the given parameters, each a number (or flag) like its default."""
        kinds = {f.name: f.default for f in fields(cls)}
        for name, value in params.items():
            if name not in kinds:
                raise ValueError(f"{what} has no parameter {name!r}, only {', '.join(kinds) or 'none'}")
            if not isinstance(value, (bool, int, float)) or isinstance(kinds[name], bool) != isinstance(value, bool):
                raise ValueError(f"{what}: {name} must be like {kinds[name]!r}, not {value!r}")
            if not math.isfinite(value):
                raise ValueError(f"{what}: {name} must be a number, not {value!r}")
            if name == "temperature" and value <= 0:
                raise ValueError(f"{what}: temperature must be a number above 0, not {value!r}")
        return cls(**params)


def _on_hardest(value: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
    """A weight (B, M) that puts ``value`` (B,) on the hardest negative and nothing elsewhere."""
    return torch.zeros_like(negatives).scatter(1, masked_argmax(negatives, mask), value.unsqueeze(1))


@dataclass(frozen=True, repr=False)
class NoDissipation(Component):
    """1: the gradient never stops (DCL)."""

    name = "none"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return torch.ones_like(positive)


@dataclass(frozen=True, repr=False)
class MarginDissipation(Component):
    """1[s_ii - max_j s_ij < m] (MPT, the baseline)."""

    name = "margin"
    margin: float = 0.3

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return (positive - masked_max(negatives, mask) < self.margin).to(positive)


@dataclass(frozen=True, repr=False)
class SoftmaxDissipation(Component):
    """1 - p_ii: one minus the positive's share of the softmax (InfoNCE; ArcCon with an angle)."""

    name = "softmax"
    temperature: float = 0.05
    angle: float = 0.0

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        shifted = torch.cos(angle(positive) + self.angle) if self.angle else positive
        others = masked_logsumexp(negatives, mask, 1 / self.temperature)
        return torch.sigmoid(others - shifted / self.temperature)


@dataclass(frozen=True, repr=False)
class EuclideanDissipation(Component):
    """1[min_j d_ij - d_ii < m] (MET)."""

    name = "euclidean"
    margin: float = 0.45

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return (chord(masked_max(negatives, mask)) - chord(positive) < self.margin).to(positive)


@dataclass(frozen=True, repr=False)
class AngleDissipation(Component):
    """1[min_j θ_ij - θ_ii < m] (MAT)."""

    name = "angle"
    margin: float = 0.15 * pi

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return (angle(masked_max(negatives, mask)) - angle(positive) < self.margin).to(positive)


@dataclass(frozen=True, repr=False)
class SoftmaxWeight(Component):
    """Softmax over the negatives; ``scaled`` divides by the temperature, as InfoNCE's own gradient does."""

    name = "softmax"
    temperature: float = 0.05
    scaled: bool = False

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        share = masked_softmax(negatives, mask, 1 / self.temperature)
        return share / self.temperature if self.scaled else share

    def sums(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.full_like(positive, 1 / self.temperature if self.scaled else 1.0)
        return total, total * softmax_weighted_sum(negatives, mask, 1 / self.temperature)


@dataclass(frozen=True, repr=False)
class HardestWeight(Component):
    """All weight on the hardest negative (MPT)."""

    name = "hardest"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return _on_hardest(torch.ones_like(positive), negatives, mask)


@dataclass(frozen=True, repr=False)
class UniformWeight(Component):
    """The same weight on every negative."""

    name = "uniform"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return mask.to(negatives) / count(mask).clamp_min(1).unsqueeze(1)


@dataclass(frozen=True, repr=False)
class PowerWeight(Component):
    """Proportional to max(s_ij, 1e-4)^power; power 0 is uniform."""

    name = "power"
    power: float = 1.0

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        raised = negatives.clamp_min(1e-4) ** self.power * mask
        return raised / raised.sum(dim=1, keepdim=True).clamp_min(torch.finfo(raised.dtype).tiny)


@dataclass(frozen=True, repr=False)
class EuclideanWeight(Component):
    """1/d on the nearest negative (MET)."""

    name = "euclidean"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return _on_hardest(1 / chord(masked_max(negatives, mask)), negatives, mask)


@dataclass(frozen=True, repr=False)
class AngleWeight(Component):
    """1/sin θ on the nearest negative (MAT)."""

    name = "angle"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return _on_hardest(1 / angle(masked_max(negatives, mask)).sin(), negatives, mask)


@dataclass(frozen=True, repr=False)
class ConstantRatio(Component):
    """The same ratio for every anchor."""

    name = "constant"
    value: float = 1.0

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return torch.full_like(positive, self.value)


@dataclass(frozen=True, repr=False)
class EuclideanRatio(Component):
    """d_neg/d_pos with the nearest negative (MET)."""

    name = "euclidean"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return chord(masked_max(negatives, mask)) / chord(positive)


@dataclass(frozen=True, repr=False)
class AngleRatio(Component):
    """sin θ_neg / sin θ_pos with the nearest negative (MAT)."""

    name = "angle"

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return angle(masked_max(negatives, mask)).sin() / angle(positive).sin()


@dataclass(frozen=True, repr=False)
class ArcConRatio(Component):
    """sin(θ_pos + u) / sin θ_pos (ArcCon)."""

    name = "arccon"
    angle: float = pi / 18

    def __call__(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        theta = angle(positive)
        return torch.sin(theta + self.angle) / torch.sin(theta)


def _by_name(*components: type[Component]) -> dict[str, type[Component]]:
    return {component.name: component for component in components}


DISSIPATIONS = _by_name(NoDissipation, MarginDissipation, SoftmaxDissipation, EuclideanDissipation, AngleDissipation)
WEIGHTS = _by_name(SoftmaxWeight, HardestWeight, UniformWeight, PowerWeight, EuclideanWeight, AngleWeight)
RATIOS = _by_name(ConstantRatio, EuclideanRatio, AngleRatio, ArcConRatio)
