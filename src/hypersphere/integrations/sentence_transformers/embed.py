"""Embeddings in chunks, with a gradient that is computed again in backward, inside one call of the trained model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hypersphere.engine import GradientCache

WRAPPERS = (DistributedDataParallel, nn.DataParallel)


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


def embed_in_chunks(model: nn.Module, columns: Sequence[dict[str, Any]], size: int) -> list[Tensor]:
    """The embeddings of every column by ``GradientCache``, in one call of the model as the trainer wraps it: several
    processes then synchronise their gradients once."""
    inner, outer = unwrapped(model), getattr(model, "_orig_mod", model)
    outer = outer if isinstance(outer, DistributedDataParallel) else inner
    refuse_layers(inner, "mini_batch_size", "leave it out")
    if any(type(each.forward).__name__ == "ForwardDecorator" for each in (model, inner)):
        raise ValueError(
            "this MatryoshkaLoss cannot hold a loss with mini_batch_size: pip install -U sentence-transformers"
        )
    cache = GradientCache(_Rows(inner), size)
    cache.training = inner.training  # of the cache alone: parts of the model may be in another mode
    replaced = "forward" in vars(inner)
    plain = inner.forward

    def embed_all(*_: Any, **__: Any) -> list[Tensor]:
        return [cache(_as_rows(column)) for column in columns]

    inner.forward = embed_all
    try:
        embeddings: list[Tensor] = outer({})
    finally:
        if replaced:
            inner.forward = plain
        else:
            del inner.forward
    return embeddings


def _as_rows(column: dict[str, Any]) -> dict[str, Any]:
    """A column whose tensors all have one row for each text."""
    if "offsets" in column or "cu_seq_lens_q" in column:
        raise ValueError(
            "mini_batch_size cuts a batch into rows, but the tokens of this model's texts form one line: leave it out"
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
