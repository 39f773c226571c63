"""Equal texts in a batch, recognised by their tokens, or without their prompts, on any number of processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.distributed import Gather, Shard, exchange, gather_rows, own_rank, world_size
from hypersphere.training.equal_texts import instance_ids, text_ids

# Odd constants of splitmix64 and of the golden ratio, as signed numbers: products of int64 wrap around.
_TOKEN, _PLACE, _FIRST, _SECOND = -7046029254386353131, -3335678366873096957, -4658895280553007687, -7723592293110705685
_LARGEST = 2**63 - 1
_FRAME = ("bos_token_id", "cls_token_id", "sep_token_id", "eos_token_id", "pad_token_id")  # tokens around a text


def token_rows(column: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor, int] | None:
    """The tokens of a column without padding: ids (T,), row (T,) and place within the row (T,), and the number of
    rows; None if the column holds no tokens."""
    tokens = column.get("input_ids")
    if not isinstance(tokens, Tensor):
        return None
    if tokens.ndim == 2 and "cu_seq_lens_q" not in column:
        mask = column.get("attention_mask")
        mask = torch.ones_like(tokens) if mask is None else mask
        row, _ = real = mask.nonzero(as_tuple=True)
        place = (mask.long().cumsum(dim=1) - 1)[real]
        return tokens[real], row, place, len(tokens)
    starts = column["cu_seq_lens_q"][:-1] if "cu_seq_lens_q" in column else column["offsets"]  # one row after another
    tokens = tokens.flatten()
    index = torch.arange(len(tokens), device=tokens.device)
    row = torch.searchsorted(starts.contiguous(), index.to(starts.dtype), right=True) - 1
    return tokens, row, index - starts[row], len(starts)


def text_hashes(column: Mapping[str, Any]) -> Tensor | None:
    """A 63-bit hash (N,) of the tokens of each row, the same on every process and for any padding.

    >>> padded = {"input_ids": torch.tensor([[5, 7, 0]]), "attention_mask": torch.tensor([[1, 1, 0]])}
    >>> bool(text_hashes(padded) == text_hashes({"input_ids": torch.tensor([[5, 7]])}))
    True
    >>> bool(text_hashes(padded) == text_hashes({"input_ids": torch.tensor([[7, 5]])}))
    False
    """
    rows = token_rows(column)
    if rows is None:
        return None
    tokens, row, place, count = rows
    mixed = (tokens.long() + 1) * _TOKEN + (place.long() + 1) * _PLACE
    for shift, factor in ((30, _FIRST), (27, _SECOND), (31, 1)):
        mixed = (mixed ^ ((mixed >> shift) & (2 ** (64 - shift) - 1))) * factor
    return torch.zeros(count, dtype=torch.int64, device=tokens.device).index_add_(0, row, mixed) & _LARGEST


def all_prompts(given: Any) -> Iterator[str]:
    """The texts in ``prompts`` as the trainer takes them: one, or one for each column, data set, or column of each."""
    if isinstance(given, Mapping):
        for each in given.values():
            yield from all_prompts(each)
    elif isinstance(given, str):
        yield given
    elif given is not None:
        raise ValueError(
            f"prompts are those of the trainer, a text or a dictionary of texts, not {type(given).__name__}"
        )


class Unprompted:
    """Hashes of texts without their prompts. The tokens are turned back into text, because the last of a prompt may
    have merged with the first of the text."""

    def __init__(self, tokenizer: Any, prompts: Any) -> None:
        self.prompts = {each for each in all_prompts(prompts) if each.strip()}
        self.tokenizer = tokenizer
        self.frame = {getattr(tokenizer, name, None) for name in _FRAME}

    def hashes(self, column: Mapping[str, Any]) -> Tensor | None:
        """Those of a column (N,); None if it has no tokens."""
        rows = token_rows(column)
        if rows is None:
            return None
        tokens, row, _, count = rows
        parts = [each.tolist() for each in tokens.split(torch.bincount(row, minlength=count).tolist())]
        starts = sorted((self._text(self._tokens(each)) for each in self.prompts), key=len, reverse=True)
        texts = []
        for part in parts:
            text = self._text(part)
            prompt = next((start for start in starts if text.startswith(start)), "")
            texts.append(text.removeprefix(prompt).strip())
        return text_ids(texts).to(tokens.device)

    def _tokens(self, text: str) -> list[int]:
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        tokens: list[int] = getattr(encoded, "ids", encoded)
        return tokens

    def _text(self, tokens: list[int]) -> str:
        kept = [token for token in tokens if token not in self.frame]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False)
        return text.strip()


def equal_text_ids(instances: Sequence[Tensor], negatives: Sequence[Tensor], gather: Gather) -> dict[str, Tensor]:
    """``ids`` and ``ids_negatives`` of a call, from the hashes (N,) of the texts of each column; empty if all texts of
    the batch differ.

    Instances that share a text get one id. A hard negative gets the id of the instances that have its text. With
    ``gather`` the texts of all processes are compared.
    """
    own, hard = torch.stack(list(instances), dim=1), torch.cat([each[:0] for each in instances[:1]] + list(negatives))
    if world_size(gather) == 1:
        shard, everyone = Shard((len(own),), 0), own
    else:
        sizes = tuple(size for (size,) in exchange([len(own)]))
        shard = Shard(sizes, own_rank())
        everyone = gather_rows(own, shard)
    ids, ids_negatives = instance_ids(everyone, hard).values()
    some = bool((ids != torch.arange(len(ids), device=ids.device)).any() or (ids_negatives >= 0).any())
    if world_size(gather) > 1 and len(negatives):
        some = any(flag for (flag,) in exchange([int(some)]))
    if not some:
        return {}
    return {"ids": shard.local(ids), **({"ids_negatives": ids_negatives} if len(negatives) else {})}
