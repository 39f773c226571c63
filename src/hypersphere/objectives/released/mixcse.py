"""MixCSE: InfoNCE with negatives that are mixed from neighbours in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine import Statistics, masked_logsumexp
from hypersphere.geometry import unit
from hypersphere.objectives.infonce import against
from hypersphere.objectives.registry import register
from hypersphere.objectives.released.whole import WholeObjective, other_instances
from hypersphere.objectives.settings import TEMPERATURES, flag, number


@register("released/mixcse")
class MixCSE(WholeObjective):
    """InfoNCE with the mixed negatives of MixCSE's code.

    Each raw row is mixed with the next one, f(z)_i = λ z_i + (1-λ) z_{i+1} scaled to length 1, λ = ``mix``, without
    gradient. An anchor x_i meets all y_j, the mixes f(y)_j of all instances, and all y_j meet its own mix f(x)_i.
    Where a mix has 1-λ of the positive its similarity is set to 0, not left out, which adds e^0 to a denominator.
    ``symmetric`` averages rows and columns.

    Source: the code of MixCSE (Zhang et al. 2022).
    Use it only to compare with numbers of that code.
    Relations: ``mixup`` with kind positive, normalised, gives each anchor one mixed negative, and has any base.

    >>> x = torch.eye(4)
    >>> round(MixCSE(temperature=1.0)(x, x).item(), 5)
    1.65797
    """

    source = "code of Zhang et al. 2022 (MixCSE)"
    temperature: float = number(default=0.05, above=0, learnable=True, tune=TEMPERATURES)
    mix: float = number(default=0.2, at_least=0, at_most=1, tune=(0.05, 0.5))
    symmetric: bool = flag(default=False)

    def features(self, *views: Tensor) -> Statistics:
        z1, z2 = views
        x, y, mixed_x, mixed_y = unit(z1), unit(z2), self.mixed(z1), self.mixed(z2)
        first = self.contrasted(x, y, mixed_x, mixed_y)
        if not self.symmetric:
            return {name: self.reduced(value) for name, value in first.items()}
        second = self.contrasted(y, x, mixed_y, mixed_x)
        return {name: self.reduced(torch.cat([first[name], second[name]])) for name in first}

    def mixed(self, z: Tensor) -> Tensor:
        """λ z_i + (1-λ) z_{i+1}, scaled to length 1."""
        rows = z.detach()
        largest = rows.abs().amax(dim=1, keepdim=True)
        scale = torch.maximum(largest, largest.roll(-1, 0)).clamp_min(torch.finfo(rows.dtype).tiny)
        return unit(self.mix * (rows / scale) + (1 - self.mix) * (rows.roll(-1, 0) / scale))

    def contrasted(self, x: Tensor, y: Tensor, mixed_x: Tensor, mixed_y: Tensor) -> Statistics:
        """The loss of each anchor x_i and its parts, (N,)."""
        others, places = other_instances(x), torch.arange(len(x), device=x.device)
        # f(y)_{i-1} is made of y_i, and f(x)_i of x_{i+1}, by 1-λ.
        with_mixes = (x @ mixed_y.T).index_put((places, places.roll(1)), x.new_zeros(()))
        of_mixes = (mixed_x @ y.T).index_put((places, places.roll(-1)), x.new_zeros(()))
        met = torch.full_like(others, len(x) > 1)  # one instance has no next one to be mixed with
        similarities, mask = torch.cat([x @ y.T, with_mixes, of_mixes], dim=1), torch.cat([others, met, met], dim=1)
        sums = masked_logsumexp(similarities, mask, 1 / self.temperature)
        return against(-(x * y).sum(dim=1) / self.temperature, sums)
