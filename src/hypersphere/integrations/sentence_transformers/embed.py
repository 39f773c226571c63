"""Embeddings in chunks, with a gradient that is computed again in backward, inside one call of the trained model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hypersphere.engine import GradientCache

WRAPPERS = (DistributedDataParallel, nn.DataParallel)
_LARGEST = 2**31  # rows in a chunk: all


def unwrapped(model: Any) -> Any:
    """The model itself, without the wrappers of several processes and of torch.compile."""
    while isinstance(model, WRAPPERS) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, WRAPPERS) else model._orig_mod
    return model


class _Rows(nn.Module):
    """A model's embeddings of a chunk, by a forward that stays the same when the model's own is replaced."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.embed = model.forward

    def forward(self, column: dict[str, Any]) -> Tensor:
        # A copy, because the model writes into its input, and backward embeds the same input again.
        embedded: Tensor = self.embed(dict(column))["sentence_embedding"]
        return embedded


def embed_in_chunks(
    model: nn.Module, columns: Sequence[dict[str, Any]], size: int | None, num_tokens: int | None = None
) -> list[Tensor]:
    """The embeddings of every column by ``GradientCache``, so many rows or tokens at a time, in one call of the model
    as the trainer wraps it: several processes then synchronise their gradients once."""
    inner, outer = unwrapped(model), getattr(model, "_orig_mod", model)
    outer = outer if isinstance(outer, DistributedDataParallel) else inner
    option = "mini_batch_size" if num_tokens is None else "mini_batch_num_tokens"
    refuse_layers(inner, option, "leave it out")
    if any(type(each.forward).__name__ == "ForwardDecorator" for each in (model, inner)):
        raise ValueError(f"this MatryoshkaLoss cannot hold a loss with {option}: pip install -U sentence-transformers")
    cache = GradientCache(_Rows(inner), size or _LARGEST)
    cache.training = inner.training  # of the cache alone: parts of the model may be in another mode
    replaced = "forward" in vars(inner)
    plain = inner.forward

    def embed_all(*_: Any, **__: Any) -> list[Tensor]:
        rows = [_as_rows(column, option) for column in columns]
        if num_tokens is None:
            return [cache(column) for column in rows]
        return [torch.cat([cache(part) for part in parts_of_tokens(column, num_tokens)]) for column in rows]

    inner.forward = embed_all
    try:
        embeddings: list[Tensor] = outer({})
    finally:
        if replaced:
            inner.forward = plain
        else:
            del inner.forward
    return embeddings


def parts_of_tokens(column: dict[str, Any], num_tokens: int) -> Iterator[dict[str, Any]]:
    """The rows of a column in parts of at most so many tokens, or of one text, each without the padding that all of
    its rows share at the end.

    >>> mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]])
    >>> [tuple(part["attention_mask"].shape) for part in parts_of_tokens({"attention_mask": mask}, 4)]
    [(1, 4), (2, 2), (1, 2)]
    """
    mask = column.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        raise ValueError(
            "mini_batch_num_tokens counts the tokens of each text by an attention mask, which this model's input does "
            "not have: take mini_batch_size"
        )
    lengths, start = mask.sum(dim=1).tolist(), 0
    while start < len(lengths):
        stop = start + 1
        while stop < len(lengths) and sum(lengths[start : stop + 1]) <= num_tokens:
            stop += 1
        width = int(mask[start:stop].any(dim=0).nonzero().max()) + 1 if any(lengths[start:stop]) else mask.shape[1]
        yield {key: _cut(value, slice(start, stop), width, mask) for key, value in column.items()}
        start = stop


def _cut(value: Any, rows: slice, width: int, mask: Tensor) -> Any:
    if not isinstance(value, Tensor) or value.ndim == 0:
        return value
    return value[rows, :width] if value.shape == mask.shape else value[rows]


def _as_rows(column: dict[str, Any], option: str) -> dict[str, Any]:
    """A column whose tensors all have one row for each text."""
    if "offsets" in column or "cu_seq_lens_q" in column:
        raise ValueError(
            f"{option} cuts a batch into rows, but the tokens of this model's texts form one line: leave it out"
        )
    length = column.get("prompt_length")  # the same for every text, in any of the forms that Pooling takes
    return {**column, "prompt_length": int(length.flatten()[0])} if isinstance(length, Tensor) else column


def refuse_layers(inner: Any, option: str, remedy: str) -> None:
    """Raises inside AdaptiveLayerLoss, which hands layers from call to call in the dictionaries of the batch."""
    if type(getattr(inner[0], "forward", None)).__name__ == "TransformerDecorator":
        raise ValueError(f"AdaptiveLayerLoss keeps the layers of whole columns, which {option} prevents: {remedy}")


def attach(value: Any, tensors: Iterable[Tensor], grads: Iterable[Tensor | None]) -> Any:
    """The same value, with these gradients with respect to the tensors besides those it has."""
    for tensor, grad in zip(tensors, grads, strict=True):
        if grad is not None:
            difference = tensor.to(grad.dtype) - tensor.detach().to(grad.dtype)  # 0, with the gradient of the tensor
            value = value + (difference * grad).sum()
    return value
