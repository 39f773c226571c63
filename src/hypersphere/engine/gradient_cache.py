"""Batches larger than the encoder's activations allow: embed in chunks, keep only the embeddings, replay."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hypersphere.torch_internals import is_batch_norm


class GradientCache(nn.Module):
    """An encoder that embeds a batch in chunks and drops each chunk's activations.

    Backward embeds each chunk again, with the random state it had the first time (dropout masks are the same), and
    carries the gradient of its embeddings into the encoder; only one chunk's activations exist at a time. The loss
    and the gradients are those of the plain encoder, for any objective, at the price of one more forward pass.

    The encoder may take tensors, or (nested) lists and mappings of tensors whose first dimension is the batch, and
    must return one tensor (N, D). Batch normalisation is refused, because it would see chunks instead of the batch.
    With several processes wrap it as ``DistributedDataParallel(GradientCache(encoder, 32))``: gradients are then
    synchronised once per step.

    >>> encoder = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1))
    >>> cached = GradientCache(encoder, chunk_size=2)
    >>> cached(torch.ones(5, 4)).shape
    torch.Size([5, 8])
    """

    def __init__(self, encoder: nn.Module, chunk_size: int) -> None:
        super().__init__()
        if chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
        self.encoder = encoder
        self.chunk_size = chunk_size

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        self._refuse_batch_norm()
        size = _batch_size([args, kwargs])
        embeddings = []
        for start in range(0, max(size, 1), self.chunk_size):
            here = slice(start, start + self.chunk_size)
            chunk_args, chunk_kwargs = _cut((args, kwargs), here)
            if torch.is_grad_enabled():
                embeddings.append(checkpoint(self.encoder, *chunk_args, use_reentrant=False, **chunk_kwargs))
            else:
                embeddings.append(self.encoder(*chunk_args, **chunk_kwargs))
        return torch.cat(embeddings)

    def _refuse_batch_norm(self) -> None:
        if not self.training:
            return
        for name, module in self.encoder.named_modules():
            if is_batch_norm(module) and module.training:
                raise ValueError(
                    f"the encoder's {name or 'module'} normalises over the batch, which a gradient cache cuts into "
                    f"chunks; use group or layer normalisation, or put that layer in eval mode"
                )

    def extra_repr(self) -> str:
        return f"chunk_size={self.chunk_size}"


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree] if tree.ndim else []
    if isinstance(tree, Mapping):
        return [tensor for value in tree.values() for tensor in _tensors(value)]
    if isinstance(tree, (list, tuple)):
        return [tensor for value in tree for tensor in _tensors(value)]
    return []


def _batch_size(tree: Any) -> int:
    sizes = {len(tensor) for tensor in _tensors(tree)}
    if len(sizes) != 1:
        raise ValueError(f"a gradient cache needs tensors that share their first dimension; it found {sorted(sizes)}")
    return sizes.pop()


def _cut(tree: Any, here: slice) -> Any:
    """The rows ``here`` of every tensor in a nested structure; anything else stays as it is."""
    if isinstance(tree, Tensor) and tree.ndim:
        return tree[here]
    if isinstance(tree, Mapping):
        parts = {key: _cut(value, here) for key, value in tree.items()}
        if not isinstance(tree, MutableMapping):
            return parts
        mapping = copy.copy(tree)  # of its own kind, such as a tokenizer's output
        mapping.update(parts)
        return mapping
    if isinstance(tree, (list, tuple)):
        members = [_cut(value, here) for value in tree]
        return type(tree)(*members) if hasattr(tree, "_fields") else type(tree)(members)
    return tree
