"""The modified objectives of Li et al. 2024 as their code has them."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hypersphere.engine import Statistics
from hypersphere.objectives.registry import register
from hypersphere.objectives.released.whole import WholeObjective, other_instances
from hypersphere.objectives.settings import TEMPERATURES, choice, number


class ReleasedModified(WholeObjective):
    """Gradient of anchor x_i: d_i ( Σ_{j≠i} W_ij x_j - P_i y_i ), d_i = 1[1 - max_{k≠i} x_i·x_k < m] from +gd on.

    The gate looks within the view, the paper's across. Where the ratio is fixed, P_i = r Σ_j W_ij, the positive term
    moves both its vectors (unless their gates are closed): -d'_i P_i x_i is added to the gradient of y_i. So the
    effective ratio is r(1 + κ'_i/κ_i), about 2r, κ the total weights of an instance in either direction.
    """

    reductions: ClassVar[tuple[str, ...]] = ("sum", "mean")
    stages: ClassVar[tuple[str, ...]] = ("original", "+gd", "+w", "+r")
    ratios: ClassVar[tuple[str, ...]] = ("+r",)  # stages with P_i = r Σ_j W_ij instead of 2/N

    margin: float = number(default=0.30, tune=(0.1, 0.9))
    temperature: float = number(default=0.05, above=0, tune=TEMPERATURES)
    ratio: float = number(default=1.5, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=30.0, at_least=0, tune=(3.0, 300.0))
    stage: str = choice("original", "+gd", "+w", "+r", default="+r")
    views: str = choice("both", "anchor", default="both")
    reduction: str = choice("sum", "mean", "none", default="sum")

    def check(self) -> None:
        if self.stage not in self.stages:
            raise ValueError(f"{self.name} has no stage {self.stage!r}, only {', '.join(self.stages)}")

    @property
    def both_views(self) -> bool:
        return self.views == "both"

    @property
    def weighted(self) -> bool:
        return self.stage in ("+w", "+r")

    def weights(self, x: Tensor, y: Tensor) -> Tensor:
        """W (N, N), 0 on the diagonal."""
        raise TypeError(f"{type(self).__name__} must define weights")

    def keys(self, x: Tensor, y: Tensor) -> Tensor:
        """The vectors that push the anchors."""
        return x

    def features_weight(self, x: Tensor, y: Tensor) -> Tensor | float:
        """Weights of the coordinates in the pull of the positive where the ratio is not fixed."""
        return 1.0

    def direction(self, x: Tensor, y: Tensor) -> Statistics:
        rows, others = x.detach(), y.detach()
        gate, weights = self.gate(rows), self.weights(rows, others)
        energy = gate * (weights * (x @ self.keys(rows, others).T)).sum(dim=1)
        if self.stage in self.ratios:
            pull = (self.ratio if self.stage == "+r" else 1.0) * weights.sum(dim=1)
            moved = self.gate(others) * pull * (rows * y).sum(dim=1)
            alignment = -gate * pull * (x * others).sum(dim=1) - (moved - moved.detach())  # a gradient, no value
        else:
            alignment = -gate * 2 / len(x) * (x * others * self.features_weight(rows, others)).sum(dim=1)
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}

    def gate(self, rows: Tensor) -> Tensor:
        """1 where a row of this view moves."""
        if self.stage == "original":
            return rows.new_ones(len(rows))
        return (1 - among_others(rows @ rows.T).amax(dim=1) < self.margin).to(rows)


def among_others(similarities: Tensor) -> Tensor:
    """(N, N) with -∞ on the diagonal."""
    return similarities.masked_fill(~other_instances(similarities), -torch.inf)


def shares(similarities: Tensor, scale: float) -> Tensor:
    """e^{scale s_ij} / Σ_{k≠l} e^{scale s_kl}, 0 on the diagonal: (N, N)."""
    return torch.softmax(scale * among_others(similarities).flatten(), dim=0).nan_to_num().view_as(similarities)


@register("released/mmhe")
class ReleasedModifiedMHE(ReleasedModified):
    """Modified MHE as its authors' code computes it.

    original, +gd: W_ij = ν e^{a_ij} / Σ_{k<l} e^{a_kl}, with e^{a} for the e^{2a} of the paper; the ratio is fixed at 1
    from +w on. The gate looks within the view, and a fixed ratio of r acts as about 2r.

    Source: the code of Li et al. 2024.
    Use it only to compare with numbers of that code.
    Relations: ``mmhe`` is Eq. 14 and 16.

    >>> x = torch.eye(4)
    >>> round(ReleasedModifiedMHE(margin=2.0)(x, x).item(), 6)
    -140.0
    """

    source = "code of Li et al. 2024"
    ratios = ("+w", "+r")
    ratio: float = number(default=1.75, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=10.0, at_least=0, tune=(1.0, 100.0))

    def weights(self, x: Tensor, y: Tensor) -> Tensor:
        scale, factor = (1 / self.temperature, 1 / self.temperature) if self.weighted else (1.0, self.weight)
        return 2 * factor * shares(x @ x.T, scale)  # twice: Σ_{k<l} is half of the sum over ordered pairs


class ReleasedQuadraticStart(ReleasedModified):
    """Barlow Twins and VICReg: quadratic weights at first, exponential with a global normaliser from +w on."""

    def compared(self, x: Tensor, y: Tensor) -> Tensor:
        """The view whose similarities are the weights."""
        return x

    def weights(self, x: Tensor, y: Tensor) -> Tensor:
        rows = self.compared(x, y)
        similarities = rows @ rows.T
        if self.weighted:
            return shares(similarities, 1 / self.temperature)
        return 2 * self.weight / len(x) ** 2 * similarities * other_instances(x)


@register("released/mbarlow")
class ReleasedModifiedBarlow(ReleasedQuadraticStart):
    """Modified Barlow Twins as its authors' code computes it.

    The weights are of h'_i·h'_j at every stage. The gate looks within the view, and a fixed ratio of r acts as about
    2r.

    Source: the code of Li et al. 2024.
    Use it only to compare with numbers of that code.
    Relations: ``mbarlow`` has weights of h_i·h'_j from +w on.

    >>> x = torch.eye(4)
    >>> round(ReleasedModifiedBarlow(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "code of Li et al. 2024"

    def compared(self, x: Tensor, y: Tensor) -> Tensor:
        return y

    def features_weight(self, x: Tensor, y: Tensor) -> Tensor | float:
        return 1.0 if self.weighted else 1 - (1 - self.weight) * (x * y).mean(dim=0)


@register("released/mvicreg")
class ReleasedModifiedVICReg(ReleasedQuadraticStart):
    """Modified VICReg as its authors' code computes it.

    The gate looks within the view, and a fixed ratio of r acts as about 2r.

    Source: the code of Li et al. 2024.
    Use it only to compare with numbers of that code.
    Relations: ``mvicreg`` is Eq. 13.

    >>> x = torch.eye(4)
    >>> round(ReleasedModifiedVICReg(margin=2.0)(x, x).item(), 6)
    -3.0
    """

    source = "code of Li et al. 2024"


@register("released/mmhs")
class ReleasedModifiedMHS(ReleasedModified):
    """Modified MHS as its authors' code computes it.

    W = ν/sqrt(‖x_i-y_j‖²+1e-4) on the nearest y_j of the other view only, ν = 1 at +r, divided by N. There is no +w.
    The gate looks within the view, and a fixed ratio of r acts as about 2r.

    Source: the code of Li et al. 2024.
    Use it only to compare with numbers of that code.
    Relations: ``mmhs`` is Eq. 15 and 17.

    >>> x = torch.eye(4)
    >>> round(ReleasedModifiedMHS(margin=2.0)(x, x).item(), 6)
    -2.474812
    """

    source = "code of Li et al. 2024"
    stages = ("original", "+gd", "+r")
    ratio: float = number(default=1.75, at_least=0, tune=(0.5, 3.0))
    weight: float = number(default=1.0, at_least=0, tune=(0.1, 10.0))

    def weights(self, x: Tensor, y: Tensor) -> Tensor:
        cosine, place = among_others(x @ y.T).max(dim=1, keepdim=True)
        factor = 1.0 if self.stage == "+r" else self.weight
        return torch.zeros_like(x @ y.T).scatter(1, place, factor / len(x) * (2 - 2 * cosine + 1e-4).rsqrt())

    def keys(self, x: Tensor, y: Tensor) -> Tensor:
        return y
