"""The model under evaluation: a folder, a hub id, or any object with ``encode``, under one interface.

A sentence-transformers model receives tokens instead of sentences. Sentences that have the same tokens ("Dancing." and
"dancing ." under a lower-casing model) are one unit of work, and batches hold sequences of nearly the same length. A
few sentences are first compared with ``model.encode``; if the embeddings differ, ``model.encode`` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypersphere.data.extras import need
from hypersphere.encoders.checkpoint import default_prompt, find_folder, open_sentence_model
from hypersphere.evaluation.features import evaluating
from hypersphere.evaluation.fingerprint import folder_fingerprint, object_fingerprint

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}  # of an encoder's arithmetic
TOKENS_PER_BATCH = {"cpu": 1024}  # fits into a processor's cache
OTHER_DEVICES = 16384


@dataclass
class Work:
    """Sentences as units to encode: sentence i is unit ``unit[i]``, with an approximate cost of ``cost[unit[i]]``."""

    unit: np.ndarray  # (sentences,)
    cost: np.ndarray  # (units,)
    truncated: np.ndarray  # (sentences,) bool
    encode: Callable[[np.ndarray], np.ndarray]  # unit numbers to (n, D) embeddings


@dataclass(frozen=True)
class About:
    """How sentences become vectors; reported with every number."""

    model: str
    pooling: str
    max_length: int | None  # tokens; None: unknown, and so is the truncation
    dimension: int | None = None
    prompt: str | None = None  # prepended to every sentence
    truncate_dim: int | None = None  # the leading dimensions that are kept; None: all


class SentenceModel:
    """A model that is opened when first needed: never, if every sentence is in the cache."""

    def __init__(
        self,
        name: str,
        fingerprint: str | None,
        load: Callable[[], Any],
        pooling: str | None = None,
        precision: str = "fp32",
    ) -> None:
        self.name, self.fingerprint, self._load, self._pooling = name, fingerprint, load, pooling
        self.precision = precision
        self._model: Any = None

    @property
    def model(self) -> Any:
        if self._model is None:
            self._model = self._load()
        return self._model

    def about(self) -> About:
        length = getattr(self.model, "max_seq_length", None) if _counts_tokens(self.model) else None
        size = getattr(self.model, "get_embedding_dimension", lambda: None)()
        return About(
            self.name,
            self._pooling or _pooling(self.model),
            None if length is None else int(length),
            None if size is None else int(size),
            default_prompt(self.model),
            getattr(self.model, "truncate_dim", None),
        )

    def prepare(self, sentences: list[str]) -> Work:
        work = _plain(self.model, sentences)
        if _takes_tokens(self.model):
            tokenised = _tokenised(self.model, sentences)
            work = tokenised if _agrees(self.model, sentences, tokenised) else work
        encode = work.encode

        def in_precision(units: np.ndarray) -> np.ndarray:
            with computing(self.precision, getattr(self.model, "device", None)):
                return encode(units)

        return work if self.precision == "fp32" else replace(work, encode=in_precision)


def computing(precision: str, device: Any = None) -> torch.autocast:
    """A context in which encoders compute in ``precision``; fp32 changes nothing."""
    kind = torch.device(device or "cpu").type
    return torch.autocast(kind, PRECISIONS[precision], enabled=precision != "fp32")


def open_model(
    model: Any,
    pooling: str | None = None,
    max_length: int | None = None,
    name: str | None = None,
    precision: str = "fp32",
) -> SentenceModel:
    """A folder (a run's too), a hub id, or any object with ``encode(list[str])``.

    ``pooling`` ("cls", "mean", "first-last") and ``max_length`` override those of a folder or hub id. ``precision`` is
    that of its arithmetic. The cache
    identifies a folder by its content (weights, configuration, tokenizer), and likewise an object made of
    sentence-transformers' modules. The code and attributes of any other object cannot be hashed: it is not cached on
    disk, unless it has an attribute ``fingerprint`` (a string) that changes whenever its output would.
    """
    if isinstance(model, (str, Path)):
        folder = find_folder(model)
        mark = folder_fingerprint(folder, pooling, max_length, *([] if precision == "fp32" else [precision]))
        return SentenceModel(
            name or str(model), mark, lambda: _load(folder, pooling, max_length), _stated(folder, pooling), precision
        )
    if not callable(getattr(model, "encode", None)):
        raise TypeError(f"A model is a folder, a hub id or an object with encode, given {type(model).__name__}.")
    if pooling is not None or max_length is not None:
        raise ValueError("pooling and max_length are of a folder or hub id; set them on the object itself.")
    own = object_fingerprint(model)
    if own is not None and precision != "fp32":
        own = f"{own}-{precision}"
    return SentenceModel(name or type(model).__name__, own, lambda: model, precision=precision)


def _load(folder: Path, pooling: str | None, max_length: int | None) -> Any:
    if pooling is None:
        return open_sentence_model(folder, max_length=max_length)
    need("sentence_transformers", "text", "A pooling of one's choice")
    from hypersphere.encoders.text import create_text_encoder

    return create_text_encoder(str(folder), pooling=pooling, max_length=max_length)


def _stated(folder: Path, pooling: str | None) -> str | None:
    """The pooling to report: a folder without a pooling of its own gets the mean, and the report must show it."""
    if pooling is None and not (folder / "modules.json").is_file():
        return "mean (the folder names none)"
    return pooling


def _pooling(model: Any) -> str:
    """The pooling from the model's own modules, such as ``mean`` or ``cls``, with the names of the modules after it."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "_modules"):
        return "the model's own"
    steps = []
    for module in model.children():
        mode = getattr(module, "pooling_mode", None)
        if mode is not None:
            steps.append(mode if isinstance(mode, str) else "+".join(mode))
        elif steps:
            steps.append(type(module).__name__.lower())
    return ", then ".join(steps) or "the model's own"


def _plain(model: Any, sentences: list[str]) -> Work:
    """Work for any ``encode``: a unit is a sentence, and its cost is its length in characters."""

    def encode(units: np.ndarray) -> np.ndarray:
        with _frozen(model):
            return _rows(model.encode([sentences[each] for each in units]), len(units))

    lengths = np.asarray([len(sentence) for sentence in sentences])
    return Work(np.arange(len(sentences)), lengths, _cut(model, sentences), encode)


@contextmanager
def _frozen(model: Any) -> Iterator[None]:
    """Puts the model, or every module an object holds, in eval mode without gradients; afterwards restores the mode."""
    held = [model] if isinstance(model, torch.nn.Module) else getattr(model, "__dict__", {}).values()
    with ExitStack() as stack, torch.inference_mode():
        for module in held:
            if isinstance(module, torch.nn.Module):
                stack.enter_context(evaluating(module))
        yield


def _cut(model: Any, sentences: list[str]) -> np.ndarray:
    """Which sentences, with the prompt, exceed the model's length, if it has a tokenizer that counts tokens."""
    longest = getattr(model, "max_seq_length", None)
    if longest is None or not _counts_tokens(model):
        return np.zeros(len(sentences), dtype=bool)
    prompt = default_prompt(model) or ""
    given = model.tokenizer([prompt + sentence for sentence in sentences], verbose=False)["input_ids"]
    return np.asarray([len(ids) > longest for ids in given])


def _counts_tokens(model: Any) -> bool:
    """Whether the model has a tokenizer of transformers, which can count the tokens of a sentence."""
    return hasattr(getattr(model, "tokenizer", None), "model_input_names")


def _rows(embeddings: Any, wanted: int) -> np.ndarray:
    if isinstance(embeddings, (list, tuple)) and embeddings and isinstance(embeddings[0], torch.Tensor):
        embeddings = torch.stack(list(embeddings))
    if isinstance(embeddings, torch.Tensor):
        embeddings = embeddings.detach().float().cpu().numpy()
    rows = np.asarray(embeddings, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != wanted:
        raise ValueError(f"encode was given {wanted} sentences and returned an array of shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError(f"encode returned {(~np.isfinite(rows).all(axis=1)).sum()} rows with NaN or infinity.")
    return rows


def _takes_tokens(model: Any) -> bool:
    """Whether it is a text model of sentence-transformers without a prompt, whose tokenizer counts and truncates like
    ours."""
    if not (isinstance(model, torch.nn.Sequential) and hasattr(model, "preprocess") and len(model)):
        return False
    tokenizer: Any = getattr(model, "tokenizer", None)
    plain = getattr(model, "default_prompt_name", None) is None and getattr(model, "truncate_dim", None) is None
    return plain and bool(getattr(tokenizer, "is_fast", False)) and tokenizer.pad_token_id is not None


def _tokenised(model: Any, sentences: list[str]) -> Work:
    tokenizer, longest = model.tokenizer, model.max_seq_length
    names = tokenizer.model_input_names
    ids = tokenizer(sentences, truncation=False, return_attention_mask=False, verbose=False)["input_ids"]
    truncated = np.asarray([longest is not None and len(row) > longest for row in ids])
    if truncated.any():
        places = np.flatnonzero(truncated).tolist()
        cut = tokenizer([sentences[each] for each in places], truncation=True, max_length=longest)["input_ids"]
        for place, row in zip(places, cut, strict=True):
            ids[place] = row
    number: dict[tuple[int, ...], int] = {}
    unit = np.asarray([number.setdefault(tuple(row), len(number)) for row in ids])
    sequences = list(number)
    budget = TOKENS_PER_BATCH.get(model.device.type, OTHER_DEVICES)

    def encode(units: np.ndarray) -> np.ndarray:
        batches = _batches(units, cost, budget)
        with _frozen(model):
            return np.concatenate([_forward(model, [sequences[each] for each in batch], names) for batch in batches])

    cost = np.asarray([len(row) for row in sequences])
    return Work(unit, cost, truncated, encode)


def _batches(units: np.ndarray, cost: np.ndarray, budget: int) -> list[np.ndarray]:
    """Units in the given order, as many at a time as fit into ``budget`` tokens after padding to the longest."""
    batches, start = [], 0
    for end in range(1, len(units) + 1):
        if end == len(units) or (end + 1 - start) * cost[units[start : end + 1]].max() > budget:
            batches.append(units[start:end])
            start = end
    return batches


def _forward(model: Any, sequences: list[tuple[int, ...]], names: list[str]) -> np.ndarray:
    width = max(map(len, sequences))
    ids = torch.full((len(sequences), width), model.tokenizer.pad_token_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    left = model.tokenizer.padding_side == "left"
    for row, sequence in enumerate(sequences):
        place = slice(width - len(sequence), None) if left else slice(len(sequence))
        ids[row, place] = torch.tensor(sequence)
        mask[row, place] = 1
    features = {"input_ids": ids, "attention_mask": mask}
    if "token_type_ids" in names:
        features["token_type_ids"] = torch.zeros_like(ids)
    moved = {name: tensor.to(model.device) for name, tensor in features.items()}
    return _rows(model(moved)["sentence_embedding"], len(sequences))


def _agrees(model: Any, sentences: list[str], work: Work) -> bool:
    """Whether embeddings from tokens equal those of ``model.encode`` for a few sentences: short, long and truncated."""
    order = np.argsort(work.cost[work.unit], kind="stable")
    chosen = np.unique(order[np.linspace(0, len(order) - 1, min(8, len(order))).astype(int)])
    with _frozen(model):
        theirs = _rows(model.encode([sentences[each] for each in chosen]), len(chosen))
    try:
        ours = work.encode(work.unit[chosen])
    except Exception:  # a custom module may fail on bare tokens in any way: then its own encode is used
        return False
    scale = np.abs(theirs).max()
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= 1e-4 * scale + 1e-12)
