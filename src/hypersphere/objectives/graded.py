"""Graded pairs: each pair of rows has a score, and pairs of a higher score should be more similar."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad, softplus

from hypersphere.engine import Anchors, Statistics, masked_logsumexp
from hypersphere.objectives.base import PairwiseObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number


@register("cosent")
class CoSENT(PairwiseObjective):
    """Ranks pairs by their scores: a pair of a higher score should have the more similar rows.

    L = log(1 + Σ_{(i,j): y_i < y_j} e^{λ (r_i - r_j)}), one number for the batch, λ = ``scale``, y_i the ``scores`` of
    the call. similarity "cosine": r_i = h_i·h'_i; "angle": r_i = |h_i·h'_i + h_i·Jh'_i| with J(p, q) = (-q, p) on the
    two halves of the coordinates (a zero is appended to an odd number of them).

    Source: Su 2022, CoSENT; "angle": Li & Li 2024, AnglE, in the form that its code computes.
    Use it when annotators graded pairs of sentences: only the order of the scores matters, and ties are not compared.
    Relations: softplus of a log-sum over pairs of pairs, as ``siglip`` is over pairs. For λ → ∞, L/λ is the largest
    inversion max(0, r_i - r_j). "angle" depends on the basis; despite its name it is a similarity in [0, √2].

    >>> x, y = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> round(CoSENT(scale=1.0)(x, y, scores=torch.tensor([0.2, 0.9])).item(), 6)
    1.313262
    """

    source = "Su 2022; Li & Li 2024"
    negatives = ()
    reductions = ("mean",)
    takes = needs = frozenset({"scores"})
    nature = "grades pairs of rows and has no negatives"
    scale: float = number(default=20.0, above=0, tune=(1.0, 50.0))
    similarity: str = choice("cosine", "angle", default="cosine")

    @property
    def only_similarities(self) -> bool:
        return self.similarity == "cosine"

    def block(self, anchors: Anchors) -> Statistics:
        assert anchors.scores is not None
        angle = self.similarity == "angle"
        similarity = _angle(anchors.rows, anchors.others) if angle else anchors.positive
        return {"similarity": similarity, "score": anchors.scores}

    def combine(self, statistics: Statistics) -> Statistics:
        scores, order = statistics["score"].sort()
        logits = self.scale * statistics["similarity"][order]  # (N,) the lowest score first
        below = torch.searchsorted(scores, scores)  # (N,) how many pairs have a lower score
        # log Σ e^{λ r_i} over these, and then log Σ_j of that times e^{-λ r_j}.
        sums = _logcumsumexp(logits)[(below - 1).clamp_min(0)]
        total = masked_logsumexp((sums - logits).unsqueeze(0), (below > 0).unsqueeze(0))
        return {"loss": softplus(total).squeeze(0)}


def _logcumsumexp(x: Tensor) -> Tensor:
    """log Σ_{k≤i} e^{x_k}: (N,) -> (N,). torch's own has no second derivative (NaN).

    >>> _logcumsumexp(torch.zeros(5)).exp()
    tensor([1., 2., 3., 4., 5.])
    """
    step = 1
    while step < len(x):  # entry i holds the sum of the last ``step`` terms, then of twice as many
        late, early = x[step:], x[:-step]
        x = torch.cat([x[:step], late - logsigmoid(late - early)])
        step *= 2
    return x


def _angle(x: Tensor, y: Tensor) -> Tensor:
    """|x·y + x·Jy|: (B, D), (B, D) -> (B,)."""
    if x.shape[1] % 2:
        x, y = pad(x, (0, 1)), pad(y, (0, 1))
    (a, b), (p, q) = x.chunk(2, dim=1), y.chunk(2, dim=1)
    return (a * (p - q) + b * (p + q)).sum(dim=1).abs()
