"""A guide's embeddings of the texts of a batch, which reach a loss as tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from hypersphere.integrations.sentence_transformers.texts import token_rows


class Guide:
    """A frozen model or a function, called with texts. It is no part of the loss's state."""

    def __init__(self, guide: SentenceTransformer | Callable[[list[str]], Any], model: SentenceTransformer) -> None:
        if not callable(guide):
            raise ValueError(f"guide must be a SentenceTransformer or a function of texts, not {type(guide).__name__}")
        if not hasattr(model.tokenizer, "batch_decode"):
            raise ValueError("a guide reads texts, but the tokens of this model cannot be turned back into texts")
        self.guide, self.decode = guide, model.tokenizer.batch_decode

    @property
    def name(self) -> str:
        if isinstance(self.guide, SentenceTransformer):
            return str(self.guide.model_card_data.base_model or "SentenceTransformer")
        return getattr(self.guide, "__name__", type(self.guide).__name__)

    @torch.no_grad()
    def __call__(self, column: Mapping[str, Any]) -> Tensor:
        rows = token_rows(column)
        if rows is None:
            raise ValueError("a guide reads texts, but a column of the batch has no tokens")
        tokens, row, _, count = rows
        texts = self.decode(
            [each.tolist() for each in tokens.split(torch.bincount(row, minlength=count).tolist())],
            skip_special_tokens=True,
        )
        if not isinstance(self.guide, SentenceTransformer):
            given = self.guide(texts)
            try:
                embedded = torch.as_tensor(given)
            except (TypeError, ValueError, RuntimeError):
                raise ValueError(f"the guide must return a tensor of embeddings, not {type(given).__name__}") from None
        else:
            model = self.guide.to(tokens.device)
            # A clone, because tensors of inference mode cannot take part in a graph.
            embedded = model.encode(texts, convert_to_tensor=True, show_progress_bar=False).clone()
        if embedded.ndim != 2 or len(embedded) != count:
            raise ValueError(
                f"the guide must return one embedding for each of the {count} texts, not the shape "
                f"{tuple(embedded.shape)}: its rows are compared with those of the batch"
            )
        return embedded.to(tokens.device).float()
