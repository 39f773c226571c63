"""Objectives where pytorch-metric-learning expects a loss: rows with labels, its miners and its reference rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.objectives import create_objective


class Loss(nn.Module):
    """An objective of pairs, called as the losses of pytorch-metric-learning are.

    Every pair of equal labels is an anchor with its positive, and the rows of other labels are its negatives, so
    "infonce" is NTXentLoss. Of a miner's result, triplets are anchors with one negative each, and pairs are anchors
    with those negatives that the miner chose for them. The loss is the mean over positive pairs.

    settings: those of the objective.

    >>> loss = Loss("infonce", temperature=1.0)
    >>> rows, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> round(loss(rows, labels).item(), 6)
    1.098612
    """

    def __init__(self, objective: str = "infonce", **settings: Any) -> None:
        super().__init__()
        self.objective = create_objective(objective, **settings)
        if "negatives" not in self.objective.takes or self.objective.labelled:
            raise ValueError(f"{objective} is no objective of one positive and its negatives")

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of rows (N, D) with labels (N,), against themselves or against ``ref_emb`` (M, D).

        indices_tuple: what a miner returns, (anchor, positive, negative) or (anchor, positive, anchor, negative);
            without it, labels decide.
        """
        keys, key_labels = (embeddings, labels) if ref_emb is None else (ref_emb, ref_labels)
        if indices_tuple is None:
            if labels is None or key_labels is None:
                raise ValueError("labels or indices_tuple must be given" + ", and ref_labels" * (ref_emb is not None))
            same = labels.unsqueeze(1) == key_labels
            if ref_emb is None:
                same.fill_diagonal_(False)
            anchor, positive = same.nonzero(as_tuple=True)
            given = {"negatives": keys, "ids": labels[anchor], "ids_negatives": key_labels}
        elif len(indices_tuple) == 3:
            anchor, positive, negative = indices_tuple
            given = {"negatives": keys[negative].unsqueeze(1)}
        elif len(indices_tuple) == 4:
            anchor, positive, owner, negative = indices_tuple
            chosen = torch.zeros(len(embeddings), len(keys), dtype=torch.bool, device=embeddings.device)
            chosen[owner, negative] = True
            given = _own_negatives(chosen[anchor], keys)
        else:
            raise ValueError(f"indices_tuple has 3 or 4 tensors, not {len(indices_tuple)}")
        if not len(anchor):
            return embeddings.sum() * 0  # no pair, no gradient
        value: Tensor = self.objective(embeddings[anchor], keys[positive], in_batch=False, **given)
        return value


def _own_negatives(chosen: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """The chosen rows (P, M) of each anchor, padded to the longest list; padding has the anchor's own id."""
    most = int(chosen.sum(dim=1).max().clamp(min=1)) if len(chosen) else 1
    kept, place = chosen.to(torch.int8).sort(dim=1, descending=True, stable=True)
    counts = kept[:, :most].bool()
    return {
        "negatives": keys[place[:, :most]],
        "ids": torch.zeros(len(chosen), dtype=torch.long, device=keys.device),
        "ids_negatives": counts.long(),  # 0, as the anchors: no negative
    }
