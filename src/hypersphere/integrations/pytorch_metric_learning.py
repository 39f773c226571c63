"""Any objective in the call form of pytorch-metric-learning's losses: a labelled batch, miners, reference rows.

loss = hs.integrations.pytorch_metric_learning.Loss("ntxent", temperature=0.07)
loss(embeddings, labels, miner(embeddings, labels)).backward()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine import Statistics, masked_logsumexp
from hypersphere.geometry import squared_chord
from hypersphere.integrations import refuse_old
from hypersphere.integrations.call_forms import require_tensor
from hypersphere.objectives import create_objective
from hypersphere.objectives.decoupled import DCL
from hypersphere.objectives.infonce import InfoNCE, against
from hypersphere.objectives.logsumexp import energy_of

refuse_old("pytorch_metric_learning", "pytorch-metric-learning")

from pytorch_metric_learning.distances import CosineSimilarity  # noqa: E402
from pytorch_metric_learning.losses.base_metric_loss_function import BaseMetricLossFunction  # noqa: E402
from pytorch_metric_learning.reducers import AvgNonZeroReducer, MeanReducer  # noqa: E402


class Loss(BaseMetricLossFunction):  # type: ignore[misc]
    """An objective called on a labelled batch, or on mined triplets or pairs: each positive pair (a, p) is an instance
    of two views, whose negatives are those of a.

    "ntxent" equals NTXentLoss and "supcon" SupConLoss, at their default temperatures and with their default reducers.
    A single positive pair with a single negative counts, for which theirs return 0. Losses are in float32 or better.

    reducer, embedding_regularizer: as theirs.
    distance: CosineSimilarity, or for the two above LpDistance between unit rows.
    """

    def __init__(
        self,
        objective: str = "ntxent",
        *,
        reducer: Any = None,
        distance: Any = None,
        embedding_regularizer: Any = None,
        embedding_reg_weight: float = 1,
        **settings: Any,
    ) -> None:
        by_anchor, chord = objective == "supcon", _is_chord(distance)
        super().__init__(
            reducer=reducer or (AvgNonZeroReducer() if by_anchor else MeanReducer()),
            distance=distance or CosineSimilarity(),
            embedding_regularizer=embedding_regularizer,
            embedding_reg_weight=embedding_reg_weight,
        )
        for name in {"reduction", "gather"} & settings.keys():
            raise ValueError(f"Loss takes no {name}: give a reducer, or wrap it in DistributedLossWrapper")
        self.by_anchor = by_anchor
        self.plain: Any = None  # for a labelled batch without mined pairs
        if objective not in ("ntxent", "supcon"):
            if chord:
                raise ValueError(f"{objective} compares cosines: LpDistance is for ntxent and supcon")
            if "negatives" not in create_objective(objective, **settings).takes:
                raise ValueError(f"{objective} has no negatives: a labelled batch needs one that has, such as dcl")
            self.objective: Any = create_objective(objective, reduction="none", **settings)
            return
        settings = {"temperature": 0.1 if by_anchor else 0.07, **settings}
        if by_anchor and settings.keys() != {"temperature"}:
            raise ValueError("supcon takes a temperature here, and no other setting")
        if by_anchor and not chord:
            self.plain = create_objective("supcon", reduction="none", **settings)
        kinds: tuple[Any, Any] = (_ChordInfoNCE, _ChordDCL) if chord else (InfoNCE, DCL)
        self.objective = kinds[by_anchor](reduction="none", **settings)

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: Sequence[Tensor] | None,
        ref_emb: Tensor,
        ref_labels: Tensor | None,
    ) -> Any:
        """The losses of all positive pairs, or of all anchors, as a reducer takes them.

        indices_tuple: (anchors, positives, negatives) or (anchors, positives, anchors, negatives), as a miner gives.
        ref_emb, ref_labels: (M, D), (M,) the rows that positives and negatives come from.
        """
        batch = _Batch(embeddings, labels, ref_emb, ref_labels)
        a, p, a2, n = batch.pairs(indices_tuple)
        if not len(a) or not len(a2):
            return self.zero_losses()
        if self.plain is not None and indices_tuple is None and batch.alone:
            return self._named(self.plain(embeddings, labels=batch.labels))
        pairs, which = torch.unique(a * len(batch.rows) + p, return_inverse=True)  # triplets repeat pairs
        anchors, positives = pairs // len(batch.rows), pairs % len(batch.rows)
        given = batch.columns(anchors, positives, a2, n, by_anchor=self.by_anchor)
        losses = self.objective(embeddings[anchors], batch.rows[positives], in_batch=False, **given)
        if not self.by_anchor:
            return self._named(losses[which], (a, p))
        sums = losses.new_zeros(len(embeddings)).index_add(0, anchors, losses)
        return self._named(sums / torch.bincount(anchors, minlength=len(embeddings)).clamp_min(1))

    def _named(self, losses: Tensor, pairs: tuple[Tensor, Tensor] | None = None) -> Any:
        indices = torch.arange(len(losses), device=losses.device) if pairs is None else pairs
        kind = "element" if pairs is None else "pos_pair"
        return {"loss": {"losses": losses, "indices": indices, "reduction_type": kind}}


class NTXentLoss(Loss):
    """``Loss("ntxent")`` under the name by which CrossBatchMemory and SelfSupervisedLoss accept it."""

    def __init__(self, temperature: float = 0.07, **settings: Any) -> None:
        super().__init__("ntxent", temperature=temperature, **settings)


class SupConLoss(Loss):
    """``Loss("supcon")`` under the name by which CrossBatchMemory and SelfSupervisedLoss accept it."""

    def __init__(self, temperature: float = 0.1, **settings: Any) -> None:
        super().__init__("supcon", temperature=temperature, **settings)


class _Batch:
    """Embeddings, and the rows that their positives and negatives come from."""

    def __init__(self, embeddings: Tensor, labels: Tensor | None, ref_emb: Tensor, ref_labels: Tensor | None) -> None:
        self.size, self.rows, self.alone = len(embeddings), ref_emb, ref_emb is embeddings
        self.labels = self.row_labels = None
        if (labels is None) != (ref_labels is None):
            raise ValueError("embeddings and ref_emb need labels both, or neither")
        if labels is not None and ref_labels is not None:
            classes = torch.unique(torch.cat([labels, ref_labels]), return_inverse=True)[1]  # -1 is a class too
            self.labels, self.row_labels = classes[: self.size], classes[self.size :]

    def pairs(self, indices_tuple: Sequence[Tensor] | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Anchors and positives, anchors and negatives."""
        if indices_tuple is not None:
            if len(indices_tuple) not in (3, 4):
                raise ValueError(f"indices_tuple must have 3 or 4 tensors, not {len(indices_tuple)}")
            for each in indices_tuple:
                require_tensor(each, "each of indices_tuple", "a tensor of whole numbers")
            a, p, *rest = (each.to(self.rows.device) for each in indices_tuple)
            pairs = a, p, rest[0] if len(rest) == 2 else a, rest[-1]
            for each, size in zip(pairs, (self.size, len(self.rows)) * 2, strict=True):
                if len(each) and not 0 <= int(each.min()) <= int(each.max()) < size:
                    raise ValueError(
                        f"indices_tuple must name rows from 0 to {size - 1}, not {int(each.min())} to {int(each.max())}"
                    )
            return pairs
        if self.labels is None or self.row_labels is None:
            raise ValueError("labels or an indices_tuple must name the positives")
        same = self.labels.unsqueeze(1) == self.row_labels
        different = ~same
        if self.alone:
            same.fill_diagonal_(False)
        a, p = same.nonzero(as_tuple=True)
        a2, n = different.nonzero(as_tuple=True)
        return a, p, a2, n

    def columns(self, a: Tensor, p: Tensor, a2: Tensor, n: Tensor, by_anchor: bool) -> dict[str, Tensor]:
        """What each pair (a, p) is contrasted with: the negatives of a, and if ``by_anchor`` its positives too.

        Where these are all rows but those of a's class, or but one row, all anchors share the rows.
        """
        counted = torch.zeros(self.size, len(self.rows), dtype=torch.bool, device=a.device)
        counted[a2, n] = True
        if by_anchor:
            counted[a, p] = True
            missing = ~counted
            if (missing.sum(dim=1)[a] <= 1).all():
                itself = torch.where(missing.any(dim=1), missing.int().argmax(dim=1), -1)
                return self._shared(itself[a], torch.arange(len(self.rows), device=a.device))
            a2, n = counted.nonzero(as_tuple=True)
        elif self.labels is not None and self.row_labels is not None and counted.sum() == len(a2):
            different = self.labels.unsqueeze(1) != self.row_labels
            if (counted == different)[a].all():
                return self._shared(self.labels[a], self.row_labels)
        return self._own(a, a2, n)

    def _shared(self, ids: Tensor, ids_negatives: Tensor) -> dict[str, Tensor]:
        return {"negatives": self.rows, "ids": ids, "ids_negatives": ids_negatives}

    def _own(self, a: Tensor, a2: Tensor, n: Tensor) -> dict[str, Tensor]:
        """Lists of equal lengths; what fills them up has the anchor's id, 0, and does not count."""
        numbers = torch.bincount(a2, minlength=self.size)
        order = torch.argsort(a2, stable=True)
        place = torch.arange(len(a2), device=a.device) - (numbers.cumsum(0) - numbers)[a2[order]]
        lists = n.new_zeros(self.size, int(numbers.max()))
        lists[a2[order], place] = n[order]
        exists = torch.arange(lists.shape[1], device=a.device) < numbers.unsqueeze(1)
        return {"negatives": self.rows[lists[a]], "ids": torch.zeros_like(a), "ids_negatives": exists[a].long()}


def _is_chord(distance: Any) -> bool:
    kind = type(distance).__name__
    if distance is None or kind == "CosineSimilarity":
        return False
    if kind == "LpDistance" and (distance.p, distance.power, distance.normalize_embeddings) == (2, 1, True):
        return True
    raise ValueError(f"distance must be CosineSimilarity() or LpDistance() of unit rows, not {distance!r}")


def _chord(cosines: Tensor) -> Tensor:
    return squared_chord(cosines).clamp_min(1e-12).sqrt()  # its derivative at 0 is infinite


class _ChordInfoNCE(InfoNCE):
    """InfoNCE of negative distances."""

    scale = None

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Statistics:
        return against(
            _chord(positive) / self.temperature, masked_logsumexp(-_chord(negatives), mask, 1 / self.temperature)
        )


class _ChordDCL(DCL):
    """DCL of negative distances."""

    scale = None

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Statistics:
        energy = masked_logsumexp(-_chord(negatives), mask, 1 / self.temperature)
        return {"loss": _chord(positive) / self.temperature + energy_of(energy, mask.sum(dim=1))}
