"""The folder of a text model, opened safely: no code from the folder runs, nothing is unpickled, and a model without
some of its weights or its tokenizer is refused. Libraries silently fill such gaps with random numbers and unknown
words, and every score would measure these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hypersphere.data.extras import need
from hypersphere.documents import locate, read_json
from hypersphere.messages import first_line

WANTED = ("*.json", "*.txt", "*.model", "*.safetensors")  # files from the hub: neither programs nor pickles
# Files of settings, each a JSON object, of transformers and sentence-transformers.
SETTINGS = ("config.json", "config_sentence_transformers.json", "sentence_bert_config.json", "tokenizer_config.json",
            "special_tokens_map.json", "model.safetensors.index.json")  # fmt: skip
SAFELY: dict[str, Any] = {"use_safetensors": True}  # arguments of transformers' from_pretrained


def find_folder(model: str | Path) -> Path:
    """The folder of a model: a folder, a run's folder (its ``model``), or a hub id, which is then downloaded."""
    place = locate(model)
    for folder in (place, place / "model"):
        if (folder / "config.json").is_file() or (folder / "modules.json").is_file():
            return folder
    if place.exists() or str(model).startswith((".", "/", "~")) or str(model).count("/") > 1:
        raise FileNotFoundError(f"{model} is not the folder of a model: it has neither config.json nor modules.json.")
    hub = need("huggingface_hub", "text", "A model of the hub")
    try:
        unread = ["onnx/*", "openvino/*"]
        return Path(hub.snapshot_download(str(model), allow_patterns=list(WANTED), ignore_patterns=unread))
    except Exception as error:  # no network, no such name: the library raises a dozen kinds
        raise FileNotFoundError(
            f"{model} is neither a folder nor a model the hub could give: {first_line(error)}"
        ) from error


def module_folders(folder: Path) -> list[Path]:
    """The folders of a sentence-transformers model's modules, the transformer's first; else the folder itself."""
    listed = folder / "modules.json"
    if not listed.is_file():
        return [folder]
    try:
        folders = [folder / entry["path"] for entry in read_json(listed, list)]
    except (ValueError, TypeError, KeyError):
        folders = []
    if not folders or not all(each.resolve().is_relative_to(folder.resolve()) for each in folders):
        raise ValueError(f"{listed} is damaged: it is no list of modules with their paths.") from None
    return folders


def own_length(folder: Path) -> int | None:
    """The longest input in tokens that the folder itself states (``sentence_bert_config.json``)."""
    stated = _object(module_folders(folder)[0] / "sentence_bert_config.json").get("max_seq_length")
    return stated if isinstance(stated, int) else None


def own_settings(folder: Path) -> dict[str, Any]:
    """Settings that a sentence-transformers model applies to every text and embedding, independent of its modules:
    prompts, and the number of dimensions it keeps."""
    stated = _object(folder / "config_sentence_transformers.json")
    return {name: stated[name] for name in ("prompts", "default_prompt_name", "truncate_dim") if stated.get(name)}


def pools_prompt(folder: Path) -> bool:
    """Whether the folder's own pooling counts the prompt's tokens; the default is yes."""
    return all(_object(place / "config.json").get("include_prompt", True) for place in module_folders(folder)[1:])


def _object(path: Path) -> dict[str, Any]:
    """The contents of a file of settings; empty if there is no file."""
    try:
        settings: dict[str, Any] = read_json(path, dict) if path.is_file() else {}
    except ValueError as error:
        why = str(error).removeprefix(f"{path} ")
        raise ValueError(f"{path} is damaged: it is no JSON object ({why}).") from None
    return settings


def check_settings(folder: Path) -> None:
    """Refuses a model if one of its files of settings is no JSON object, before a library reads it."""
    for place in dict.fromkeys([folder, *module_folders(folder)]):
        for name in SETTINGS:
            _object(place / name)


def refuse_pickles(folder: Path) -> None:
    """Refuses weights that come only as a pickle, which can run any program."""
    for place in module_folders(folder):
        pickled = sorted(each.name for each in place.glob("*.bin") if each.name != "training_args.bin")
        safe = [*place.glob("model*.safetensors"), *place.glob("adapter_model*.safetensors")]
        if pickled and not safe:
            raise ValueError(
                f"{place} has its weights only as {pickled[0]}, a pickle, which is never read: save the model anew "
                "with save_pretrained, which writes safetensors."
            )


def open_sentence_model(folder: Path, kind: Any = None, max_length: int | None = None) -> Any:
    """The sentence-transformers model in ``folder`` (an object of ``kind``), with all its weights."""
    library = need("sentence_transformers", "text", "A model folder")
    check_settings(folder)
    refuse_pickles(folder)
    try:
        with quietly():
            model = (kind or library.SentenceTransformer)(
                str(folder), local_files_only=True, trust_remote_code=False, model_kwargs=dict(SAFELY)
            )
    except Exception as error:  # of many kinds: settings of the wrong type, sizes that do not fit, damaged weights
        raise ValueError(f"The model {folder} could not be loaded: {first_line(error)}") from None
    for module, place in zip(model, module_folders(folder), strict=False):
        check_weights(module, place)
        check_tokenizer(module, place)
    set_length(model, max_length)
    return model


def check_weights(module: nn.Module, folder: Path) -> None:
    """Refuses a transformer if ``folder`` lacks some of its weights. A pooler may be missing: nothing here uses it.

    This loads the weights a second time; transformers offers no other way to list the missing ones.
    """
    network: Any = getattr(module, "auto_model", None)
    if network is None or not callable(getattr(type(network), "from_pretrained", None)):
        return
    with quietly(), torch.random.fork_rng(devices=[]):
        _, loading_info = type(network).from_pretrained(
            str(folder), config=network.config, local_files_only=True, output_loading_info=True, **SAFELY
        )
    missing = sorted(key for key in loading_info["missing_keys"] if "pooler." not in key)
    if missing:
        raise ValueError(f"{lacking(folder, missing)}.")


def check_tokenizer(module: nn.Module, folder: Path) -> None:
    """Refuses a transformer whose tokenizer is not in ``folder``: transformers would create one without vocabulary."""
    tokenizer: Any = getattr(module, "tokenizer", None)
    if not hasattr(tokenizer, "all_special_tokens"):
        return
    names = getattr(type(tokenizer), "vocab_files_names", {})
    parts = [folder / name for key, name in names.items() if key in ("vocab_file", "merges_file")]
    kept = (folder / "tokenizer.json").is_file() or any(folder.glob("*.model"))
    if names and not kept and not (parts and all(path.is_file() for path in parts)):  # without names: of characters
        raise ValueError(f"{folder} lacks the model's tokenizer, such as tokenizer.json; every word would be unknown.")
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ValueError(f"{folder} has a tokenizer without a vocabulary; every word would be unknown.")


def lacking(where: Path | str, missing: list[str]) -> str:
    """A sentence about the missing weights."""
    return f"{where} lacks {len(missing)} of the model's weights, such as {missing[0]}; they would be random numbers"


def default_prompt(model: Any) -> str | None:
    """The prompt that a sentence-transformers model puts before every text by default; most have none."""
    name = getattr(model, "default_prompt_name", None)
    return None if name is None else (getattr(model, "prompts", {}).get(name) or None)


def set_length(model: Any, length: int | None) -> None:
    """Cuts inputs after ``length`` tokens; refuses more than the model has positions for."""
    if length is None:
        return
    most = min((each for module in model.modules() if (each := _positions(module)) is not None), default=None)
    if most is not None and length > most:
        raise ValueError(f"max_length is {length}, but the model reads at most {most} tokens, the positions it has.")
    model.max_seq_length = length


def _positions(module: nn.Module) -> int | None:
    """How many tokens a table of positions holds; models like RoBERTa reserve the positions up to the padding index."""
    table = getattr(module, "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        return None
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


@contextmanager
def quietly() -> Iterator[None]:
    """Silences transformers' progress bars and its table of missing weights; ``check_weights`` reports them instead."""
    logging = need("transformers.utils.logging", "text", "A model folder")
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
