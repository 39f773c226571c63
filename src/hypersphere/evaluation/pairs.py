"""Alignment, uniformity and InfoNCE of scored pairs of sentences, as Nie et al. 2023 draw them over a run (Fig. 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from hypersphere.data.sts import ScoredPairs
from hypersphere.diagnostics import alignment, uniformity
from hypersphere.evaluation.sts import Encode
from hypersphere.objectives import create_objective

CLOSE = 4.0  # a pair is positive if its gold score, from 0 to 5, is above this


class Remembered:
    """An encoder that encodes a list of sentences only once, until ``forget`` is called."""

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self.forget()

    def forget(self) -> None:
        self._sentences: list[str] | None = None
        self._embeddings: Any = None

    def __call__(self, sentences: list[str]) -> Any:
        if sentences != self._sentences:
            self._sentences, self._embeddings = sentences, self.encode(sentences)
        return self._embeddings


def pair_geometry(encode: Encode, pairs: ScoredPairs, batch: int, temperature: float = 0.05) -> dict[str, float]:
    """Alignment (α = 2) and InfoNCE in batches over the pairs with a gold score above 4; uniformity (t = 2) over all
    sentences. The first two are NaN if fewer than two pairs are that close.

    InfoNCE is the mean over the pairs. The negatives of a pair are the second sentences of the others in its batch; the
    pairs are in the order of the file.
    """
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    row = {text: number for number, text in enumerate(texts)}
    embeddings = torch.as_tensor(encode(texts)).float().cpu()
    close = [place for place, score in enumerate(pairs.scores) if score > CLOSE]
    geometry = {"alignment": math.nan, "infonce": math.nan, "uniformity": uniformity(embeddings)}
    if len(close) < 2:
        return geometry
    first, second = (embeddings[[row[side[place]] for place in close]] for side in (pairs.first, pairs.second))
    infonce = create_objective("infonce", temperature=temperature)
    with torch.no_grad():
        losses = [
            len(part) * float(infonce(first[part], second[part])) for part in in_batches(range(len(close)), batch)
        ]
    return {**geometry, "alignment": alignment(first, second), "infonce": sum(losses) / len(close)}


def in_batches(rows: Sequence[int], size: int) -> list[list[int]]:
    """The rows in order, ``size`` at a time. A single row left over has no negative, so it joins the last batch.

    >>> in_batches([5, 6, 7, 8, 9], 2)
    [[5, 6], [7, 8, 9]]
    """
    batches = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches
