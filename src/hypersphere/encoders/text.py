"""Sentence encoders: any Hugging Face model with a pooling, as a SentenceTransformer that can embed in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hypersphere.data.integrity import known_name
from hypersphere.documents import locate
from hypersphere.encoders.checkpoint import (
    SAFELY,
    check_settings,
    check_tokenizer,
    check_weights,
    find_folder,
    module_folders,
    open_sentence_model,
    own_length,
    own_settings,
    pools_prompt,
    quietly,
    refuse_pickles,
    set_length,
)
from hypersphere.messages import first_line

POOLINGS = ("cls", "mean", "first-last")


class SentenceEncoder(SentenceTransformer):
    """A SentenceTransformer that also takes a whole batch as chunks of rows of similar length.

    ``forward({"chunks": [...], "place": ...})`` embeds every chunk, padded to its own longest row, and returns the rows
    in the batch's order: ``place[i]`` is the index of row i of the batch among the chunks' rows. With ``cached`` each
    chunk's activations are dropped and computed again in backward, with the same dropout masks (see GradientCache).
    Everything happens inside one ``forward``, so that several processes synchronise their gradients once.
    """

    cached = False

    def forward(self, input: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if "chunks" not in input:
            return dict(super().forward(input, **kwargs))
        embeddings = []
        for chunk in input["chunks"]:
            if self.cached and torch.is_grad_enabled():
                embeddings.append(checkpoint(self._embed, chunk, use_reentrant=False))
            else:
                embeddings.append(self._embed(chunk))
        return {"sentence_embedding": torch.cat(embeddings)[input["place"]]}

    def _embed(self, chunk: dict[str, Tensor]) -> Tensor:
        embedded: Tensor = super().forward(dict(chunk))["sentence_embedding"]
        return embedded[:, : self.truncate_dim]  # as in ``encode``; None keeps all


def create_text_encoder(
    name: str,
    *,
    pooling: str | None = "cls",
    max_length: int | None = 32,
    dropout: float | None = None,
    head: bool = False,
) -> SentenceEncoder:
    """The encoder ``name`` (hub id or folder) with a pooling: "cls", "mean" (of the last layer) or "first-last" (mean
    of the first and the last transformer layer). ``None`` opens a sentence-transformers model as it was saved.

    max_length: longest input in tokens; ``None`` keeps the model's own limit.
    dropout: replaces the model's own hidden and attention dropout, which make the two views in SimCSE.
    head: keeps a linear layer with tanh on top, which then belongs to the model.
    """
    if pooling is not None:
        known_name(pooling, POOLINGS, "pooling")
    with _loading(name):
        folder = find_folder(name)
        if pooling is None:
            model: SentenceEncoder = open_sentence_model(folder, SentenceEncoder, max_length)
        else:
            model = _pooled(folder, pooling, max_length)
    if not isinstance(model[0], Transformer) or not hasattr(model.tokenizer, "model_input_names"):
        raise ValueError(f"the encoder {name} begins with {type(model[0]).__name__}, not with a transformer for text")
    if head:
        width = int(model.get_embedding_dimension() or 0)
        model.append(Dense(width, width, activation_function=nn.Tanh()))
    if dropout is not None:
        _set_dropout(model, dropout)
    longest = model.tokenizer.model_max_length
    if max_length is not None and max_length > longest:
        raise ValueError(f"max_length is {max_length}, but {name} reads at most {longest} tokens")
    for path, parameter in model.named_parameters():
        if ".pooler." in path:  # no pooling here uses it: several processes would wait for its gradient
            parameter.requires_grad_(False)
    return model


def has_own_modules(name: str) -> bool:
    """Whether ``name`` is a sentence-transformers model, with a pooling of its own, and not a bare transformer."""
    with _loading(name):
        return (find_folder(name) / "modules.json").is_file()


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Turns any error inside into one sentence about the encoder ``name``."""
    place = locate(name)
    if place.is_dir() or name.startswith((".", "/", "~")):  # else: a hub id
        homes = (place, place / "model")  # a run keeps its model in a folder of its own
        if not any((home / file).is_file() for home in homes for file in ("config.json", "modules.json")):
            raise FileNotFoundError(f"{name} is not the folder of a Hugging Face model: it has no config.json")
    try:
        yield
    except Exception as error:  # of many kinds: see open_sentence_model
        raise ValueError(f"the encoder {name} could not be loaded: {first_line(error)}") from None


def _pooled(folder: Path, pooling: str, max_length: int | None) -> SentenceEncoder:
    """The transformer in ``folder``, with all its weights, under a pooling that is not the folder's own."""
    check_settings(folder)
    refuse_pickles(folder)
    home = module_folders(folder)[0]
    layers = {"output_hidden_states": True} if pooling == "first-last" else {}
    own = {"local_files_only": True, "trust_remote_code": False}
    with quietly():
        transformer = Transformer(
            str(home),
            max_seq_length=own_length(folder),
            model_kwargs={**own, **SAFELY},
            processor_kwargs=dict(own),
            config_kwargs={**own, **layers},
        )
    check_weights(transformer, home)
    check_tokenizer(transformer, home)
    model = SentenceEncoder(
        modules=_modules(transformer, pooling),
        local_files_only=True,  # else saving asks the hub about the folder's name, for a card
        **own_settings(folder),
    )
    for module in model:
        if isinstance(module, Pooling):
            module.include_prompt = pools_prompt(folder)
    set_length(model, max_length)
    return model


def _modules(transformer: Transformer, pooling: str) -> list[nn.Module]:
    width = int(transformer.get_embedding_dimension())
    if pooling != "first-last":
        return [transformer, Pooling(width, pooling_mode=pooling)]
    depth = int(transformer.auto_model.config.num_hidden_layers)
    ends = torch.zeros(depth)
    ends[0], ends[-1] = 1.0, 1.0  # hidden state 0 is the embedding layer: the first layer's output is number 1
    mixed = WeightedLayerPooling(
        width, num_hidden_layers=depth, layer_start=1, layer_weights=nn.Parameter(ends, requires_grad=False)
    )
    return [transformer, mixed, Pooling(width, pooling_mode="mean")]


def _set_dropout(model: nn.Module, share: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        for name in ("dropout", "dropout_prob", "attention_dropout"):  # where it is part of one fused product
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, share)


def skipped_tokens(model: SentenceTransformer, prompt: str) -> int | None:
    """Number of prompt tokens at the start of a text that the pooling leaves out; None: none."""
    pooled = [module for module in model if isinstance(module, Pooling)]
    if not prompt or all(module.include_prompt for module in pooled):
        return None
    prompt_length: Any = model.preprocess(["text"], prompt=prompt).get("prompt_length")
    return None if prompt_length is None else int(prompt_length)


def describe(model: SentenceTransformer) -> str:
    """Pooling, the modules after it, and length in words: the steps between the tokens and the embedding in use."""
    modules = [_in_words(module) for module in model if not isinstance(module, (Transformer, WeightedLayerPooling))]
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        modules[0] = "mean of the first and the last layer"
    kept = "" if model.truncate_dim is None else f"; the first {model.truncate_dim} dimensions"
    length = "" if model.max_seq_length is None else f"; at most {model.max_seq_length} tokens"
    return (", then ".join(modules) or "no pooling") + kept + length


def _in_words(module: nn.Module) -> str:
    if isinstance(module, Pooling):
        known = {"cls": "[CLS] of the last layer", "mean": "mean of the last layer"}
        modes = (module.pooling_mode,) if isinstance(module.pooling_mode, str) else module.pooling_mode
        return " and ".join(known.get(mode, f"{mode} pooling") for mode in modes)
    if isinstance(module, Dense):
        return "a dense layer with tanh" if isinstance(module.activation_function, nn.Tanh) else "a dense layer"
    return "normalisation" if isinstance(module, Normalize) else type(module).__name__
