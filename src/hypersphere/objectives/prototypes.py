"""Supervised objectives with a learned prototype for each class, contrasted with the rows of the batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hypersphere.engine import Inputs, Statistics
from hypersphere.engine.distributed import agree_on_labels, world_size
from hypersphere.geometry import unit
from hypersphere.objectives.base import FeatureObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, number


class PrototypeObjective(FeatureObjective):
    """A softmax of each prototype over the rows of the batch; its sum is that of a class, so N·K cosines are enough.

    ``prototypes`` (num_classes, dim) is a parameter, of unit length inside.
    """

    final = ("num_classes", "dim")
    raw_rows = False
    labelled = True
    needs = frozenset({"labels"})
    nature = "compares rows with prototypes, not with each other"
    temperature: float = number(default=0.2, above=0, learnable=True, tune=TEMPERATURES)
    num_classes: int = number(at_least=1, whole=True)
    dim: int = number(at_least=1, whole=True)

    def build(self) -> None:
        generator = torch.Generator().manual_seed(0)  # the same prototypes on every process
        start = torch.randn(self.num_classes, self.dim, generator=generator, dtype=torch.float64)
        self.prototypes = nn.Parameter(unit(start).to(torch.get_default_dtype()))

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        if world_size(self.gather) > 1:
            agree_on_labels(inputs.labels)
        if inputs.labels is None:
            raise ValueError(f"{self.name} needs labels: give labels= in its call")
        return super().evaluate(inputs, terms)

    def features(self, *views: Tensor, labels: Tensor | None = None) -> Statistics:
        assert labels is not None
        dim = views[0].shape[1]
        if dim != self.dim:
            raise ValueError(f"{self.name}'s prototypes have {self.dim} dimensions but the views have {dim}")
        if bool((labels >= self.num_classes).any()):
            raise ValueError(f"labels must be below the number of classes ({self.num_classes}), or -1")
        labelled = labels >= 0
        classes, own = torch.unique(labels[labelled], return_inverse=True)
        prototypes = unit(self.prototypes.to(views[0]))[classes]
        by_view = [self._of_view(unit(z)[labelled], prototypes, own) for z in views]
        return {name: torch.stack([each[name] for each in by_view]).mean(dim=0) for name in by_view[0]}

    def _of_view(self, rows: Tensor, prototypes: Tensor, own: Tensor) -> Statistics:
        """The mean loss of labelled rows (N, D), from the prototypes (K, D) of their classes and their place there."""
        if not len(rows):  # nothing is labelled: a zero that can be differentiated
            nothing = rows.sum() + prototypes.sum()
            return {"loss": nothing, "alignment": nothing, "energy": nothing}
        logits = prototypes @ rows.T / self.temperature  # (K, N)
        alignment = -logits.gather(0, own.unsqueeze(0)).mean()
        energy = self.energy(logits, own)[own].mean()
        return {"loss": alignment + energy, "alignment": alignment, "energy": energy}

    def energy(self, logits: Tensor, own: Tensor) -> Tensor:
        """log Σ_j of each class, over the rows it is contrasted with: (K, N), (N,) -> (K,)."""
        raise TypeError(f"{type(self).__name__} must define energy")


@register("ntce")
class NTCE(PrototypeObjective):
    """Cross-entropy of a class's prototype picking its rows among those of the batch.

    L_i = -log( e^{w_y·u_i/τ} / Σ_j e^{w_y·u_j/τ} ), w_y the learned prototype of row i's class y, mean over labelled
    rows, then over views. Rows labelled -1 take no part.

    Source: Koromilas et al. 2026 (NTCE).
    Use it with full labels, in place of a linear classifier with cross-entropy.
    Relations: it is ``infonce`` of the rows' prototypes with the rows; ``nonl`` leaves rows of the own class out.

    >>> x, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> objective = NTCE(num_classes=2, dim=4, temperature=1.0)
    >>> _ = objective.prototypes.data.copy_(torch.eye(4)[[0, 2]])
    >>> round(objective(x, x, labels).item(), 6)
    1.243668
    """

    source = "Koromilas et al. 2026"

    def energy(self, logits: Tensor, own: Tensor) -> Tensor:
        return logits.logsumexp(dim=1)


@register("nonl")
class NONL(PrototypeObjective):
    """``ntce`` without the rows of the own class among those that a prototype is contrasted with.

    L_i = -w_y·u_i/τ + log Σ_{j: y_j≠y} e^{w_y·u_j/τ}, w_y the learned prototype of row i's class y, mean over labelled
    rows, then over views. Rows labelled -1 take no part. If the batch has one class only, the alignment is left.

    Source: Koromilas et al. 2026 (NONL).
    Use it as ``ntce``, where rows of a class should not repel each other.
    Relations: it is ``dcl`` of the rows' prototypes with the rows, the labels being ``ids``.

    >>> x, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> objective = NONL(num_classes=2, dim=4, temperature=1.0)
    >>> _ = objective.prototypes.data.copy_(torch.eye(4)[[0, 2]])
    >>> round(objective(x, x, labels).item(), 6)
    0.193147
    """

    source = "Koromilas et al. 2026"

    def energy(self, logits: Tensor, own: Tensor) -> Tensor:
        if len(logits) == 1:
            return logits.new_zeros(1)
        classes = torch.arange(len(logits), device=own.device).unsqueeze(1)
        return logits.masked_fill(classes == own, -torch.inf).logsumexp(dim=1)
