"""Fingerprints of models: the key of a cache on disk covers everything that determines a model's output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import torch

FORMAT = "5"  # of the cache's content and its computation: a new format invalidates all earlier entries
_OF_A_MODEL = (".json", ".safetensors", ".txt", ".model")  # files that determine a model's output
# Endings of tokenizer settings that hold where it was read, not its behaviour.
_OF_THE_DISK = ("_file", "name_or_path", "is_local", "files_only")
_REPLACEABLE = {"encode", "forward", "preprocess", "tokenize"}  # methods that determine the output
_NOT_READ = ("onnx", "openvino", "checkpoint-")


def folder_fingerprint(folder: Path, *settings: object) -> str:
    """The fingerprint of the model in ``folder``, opened with these settings."""
    return _hash([*_versions(), _of_files(folder), *(str(each) for each in settings)])


def object_fingerprint(model: Any) -> str | None:
    """The fingerprint of a model's content if all of it can be hashed, or the model's own; None if it has neither."""
    if isinstance(own := getattr(model, "fingerprint", None), str):
        return _hash([*_versions(), own])
    if not isinstance(model, torch.nn.Module) or not _is_published(model):
        return None
    tokenizer = getattr(model, "tokenizer", None)
    if not hasattr(tokenizer, "backend_tokenizer"):  # its tokenization rules cannot be read
        return None
    return _hash(chain(_versions(), _of_tokenizer(tokenizer), _content(model)))


def _is_published(model: torch.nn.Module) -> bool:
    """Whether all modules are unmodified ones of known libraries: state and configuration then determine the output."""
    if type(model).__module__.partition(".")[0] not in ("sentence_transformers", "hypersphere"):
        return False
    known = ("sentence_transformers", "hypersphere", "transformers", "torch")
    return all(
        type(module).__module__.partition(".")[0] in known
        and not _REPLACEABLE & set(vars(module))  # overrides the class's own method
        and not (module._forward_hooks or module._forward_pre_hooks)
        for module in model.modules()
    )


def _content(model: torch.nn.Module) -> Iterator[str | bytes]:
    """Everything that determines a module's output, a piece at a time."""
    yield f"{type(model).__module__}.{type(model).__qualname__}"
    yield repr(model)
    for name in ("max_seq_length", "truncate_dim", "default_prompt_name", "prompts"):
        yield str(getattr(model, name, None))
    module: Any
    for module in model.modules():
        yield f"{type(module).__module__}.{type(module).__qualname__}({module.extra_repr()})"
        if hasattr(module, "get_config_dict"):
            yield json.dumps(module.get_config_dict(), sort_keys=True, default=str)
        if hasattr(module, "auto_model"):
            yield str(module.auto_model.config.to_json_string())
    for name, tensor in model.state_dict().items():
        held = tensor.detach().cpu().contiguous()
        yield f"{name} {held.dtype} {tuple(held.shape)}"
        yield held.reshape(-1).view(torch.uint8).numpy().tobytes()


def _of_tokenizer(tokenizer: Any) -> Iterator[str]:
    """A tokenizer's rules and vocabulary, and its settings: the side of truncation and padding, the special tokens."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    settings = {name: value for name, value in tokenizer.init_kwargs.items() if not name.endswith(_OF_THE_DISK)}
    for name in ("truncation", "padding"):  # left from the last call; every call sets them anew
        rules.pop(name, None)
    for name in ("truncation_side", "padding_side", "special_tokens_map", "split_special_tokens",
                 "model_input_names"):  # fmt: skip
        settings[name] = getattr(tokenizer, name, None)
    yield json.dumps([rules, settings], sort_keys=True, default=str)


def _hash(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _of_files(folder: Path) -> str:
    """Hash of the files that determine the output of the model in ``folder``, by their names and content."""
    digest = hashlib.blake2b(digest_size=16)
    for path in _files(folder):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def _files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """The files of a model by their names, in linked folders too; a link back to a folder above is not followed."""
    real = folder.resolve()
    if real in above:
        return
    for path in sorted(folder.iterdir()):
        if not above and path.name.startswith(_NOT_READ):
            continue
        if path.is_dir():
            yield from _files(path, (*above, real))
        elif path.suffix in _OF_A_MODEL and path.is_file():
            yield path


def _versions() -> Iterator[str]:
    """The format of the cache, and the libraries that turn weights and texts into numbers."""
    yield FORMAT
    for library in ("sentence-transformers", "transformers"):
        try:
            yield metadata.version(library)
        except metadata.PackageNotFoundError:
            yield ""
