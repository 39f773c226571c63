"""Embeds every distinct sentence once and caches its embedding: in memory, and on disk by model and text.

On disk a model has a folder named by its fingerprint, in which every finished chunk is one safetensors file: ``keys``
(hashes of the texts), ``row`` (the index of each text's embedding), ``truncated``, ``embeddings``, and a checksum of
them all. A chunk appears whole or not at all, so a killed run loses only its current chunk. A chunk with a wrong
checksum is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.data.extras import need
from hypersphere.documents import as_record, expand, parse_json, read_json
from hypersphere.evaluation.sentence_model import About, SentenceModel
from hypersphere.limits import need_memory
from hypersphere.messages import first_line
from hypersphere.report import atomic_write

CHUNK_SECONDS = 10.0  # a chunk takes about this long
FIRST_CHUNK = 256  # units; the time it takes determines the sizes of the others
Progress = Callable[[float, float], None]  # done and total, in the model's own units of cost


def default_cache() -> Path:
    """``$HYPERSPHERE_CACHE``, else ``hypersphere`` in the user's cache folder."""
    if own := os.environ.get("HYPERSPHERE_CACHE"):
        return expand(own)
    return expand(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "hypersphere"


def text_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True)
class _Chunk:
    embeddings: np.ndarray  # (n, D); a file is mapped, not read


class Embeddings:
    """Embeddings by sentence; ``folder=None`` keeps them in memory only."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.discarded: list[Path] = []  # chunks that were damaged
        self._chunks: list[_Chunk] = []
        self._place: dict[bytes, tuple[int, int]] = {}
        self._truncated: set[bytes] = set()
        if folder is not None and folder.is_dir():
            for path in sorted(folder.glob("*.safetensors")):
                self._open(path)

    def __contains__(self, text: str) -> bool:
        return text_key(text) in self._place

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32, one row for each text."""
        places = [self._place[text_key(text)] for text in texts]
        chunk, row = (np.asarray([place[side] for place in places], dtype=np.int64) for side in (0, 1))
        embeddings = np.empty((len(texts), self._chunks[0].embeddings.shape[1]), dtype=np.float32)
        for number in np.unique(chunk):
            embeddings[chunk == number] = self._chunks[number].embeddings[row[chunk == number]]
        return embeddings

    def truncated(self, texts: Sequence[str]) -> int:
        """How many of ``texts`` were longer than the model's limit."""
        return sum(text_key(text) in self._truncated for text in texts)

    def add(self, texts: Sequence[str], row: np.ndarray, truncated: np.ndarray, embeddings: np.ndarray) -> None:
        """Adds a chunk in which text i has the embedding ``row[i]``; it is on disk before this returns."""
        keys = np.frombuffer(b"".join(map(text_key, texts)), dtype=np.uint8).reshape(-1, 16)
        arrays: dict[str, np.ndarray] = {
            "keys": keys,
            "row": row.astype(np.int32),
            "truncated": truncated.astype(np.uint8),
            "embeddings": np.ascontiguousarray(embeddings, dtype=np.float32),
        }
        if self.folder is None:
            self._admit(arrays)
            return
        library = need("safetensors.numpy", "cli", "The cache of embeddings")
        name = hashlib.blake2b(keys.tobytes(), digest_size=16).hexdigest()
        path = self.folder / f"{name}.safetensors"
        atomic_write(path, library.save(arrays, metadata={"checksum": _checksum(arrays)}))
        self._open(path)

    def _open(self, path: Path) -> None:
        arrays = _read(path)
        if arrays is None or (self._chunks and arrays["embeddings"].shape[1] != self._chunks[0].embeddings.shape[1]):
            self.discarded.append(path)
            path.unlink(missing_ok=True)
            return
        self._admit(arrays)

    def _admit(self, arrays: dict[str, np.ndarray]) -> None:
        number = len(self._chunks)
        self._chunks.append(_Chunk(arrays["embeddings"]))
        keys = arrays["keys"].tobytes()
        for at, row in enumerate(arrays["row"].tolist()):
            key = keys[16 * at : 16 * at + 16]
            self._place[key] = (number, row)
            if arrays["truncated"][at]:
                self._truncated.add(key)


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in ("keys", "row", "truncated", "embeddings"):
        digest.update(f"{name} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).view(np.uint8).reshape(-1).data)
    return digest.hexdigest()


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a chunk, mapped from the file; None if it is damaged."""
    kinds: dict[str, Any] = {"U8": np.uint8, "I32": np.int32, "F32": np.float32}
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                return None
            header = parse_json(file.read(length), str(path), dict)
        metadata = header.pop("__metadata__")
        arrays: dict[str, np.ndarray] = {}
        for name, entry in header.items():
            offset, shape = 8 + length + entry["data_offsets"][0], tuple(entry["shape"])
            arrays[name] = np.memmap(path, dtype=kinds[entry["dtype"]], mode="r", offset=offset, shape=shape)
        return arrays if metadata["checksum"] == _checksum(arrays) else None
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, MemoryError):
        return None


def embed(
    model: SentenceModel,
    texts: Sequence[str],
    cache: Path | None,
    progress: Progress = lambda done, total: None,
) -> tuple[Embeddings, About]:
    """Embeddings of all ``texts``. Texts missing from the cache are encoded, each distinct one once, longest first."""
    home = None if cache is None or model.fingerprint is None else cache / "embeddings" / model.fingerprint
    store = Embeddings(home)
    distinct = list(dict.fromkeys(texts))
    missing = [text for text in distinct if text not in store]
    if missing:
        _encode(model, missing, store, progress)
    return store, _about(model, home)


def _encode(model: SentenceModel, texts: list[str], store: Embeddings, progress: Progress) -> None:
    work = model.prepare(texts)
    order = np.argsort(-work.cost, kind="stable")
    by_unit = np.argsort(work.unit, kind="stable")  # sentences, those of one unit side by side
    first = np.searchsorted(work.unit[by_unit], np.arange(len(order) + 1))
    total, done, start, size = float(work.cost.sum()), 0.0, 0, FIRST_CHUNK
    while start < len(order):
        units = order[start : start + size]
        began = time.monotonic()
        embeddings = work.encode(units)
        seconds = max(time.monotonic() - began, 1e-3)
        members = [by_unit[first[unit] : first[unit + 1]] for unit in units]
        row = np.repeat(np.arange(len(units)), [len(each) for each in members])
        chosen = np.concatenate(members)
        store.add([texts[each] for each in chosen], row, work.truncated[chosen], embeddings)
        done, start = done + float(work.cost[units].sum()), start + len(units)
        progress(done, total)
        size = int(np.clip(len(units) * CHUNK_SECONDS / seconds, FIRST_CHUNK, 16 * FIRST_CHUNK))


def _about(model: SentenceModel, home: Path | None) -> About:
    """The model's description. It is stored beside the model's cache, so that the model need not be opened again."""
    path = None if home is None else home / "about.json"
    if path is not None and path.is_file():
        try:
            return as_record(About, {**read_json(path, dict), "model": model.name}, str(path))
        except (OSError, ValueError):
            pass  # damaged: computed again
    about = model.about()
    if path is not None:
        atomic_write(path, json.dumps(asdict(about), indent=1) + "\n")
    return about


def supplied(path: str | Path) -> tuple[Embeddings, About]:
    """Embeddings made elsewhere: an array (N, D) in ``.npy``, or named ``embeddings`` in ``.npz`` or ``.safetensors``.
    A file beside it, of the same name ending in ``.jsonl``, holds the N sentences, a JSON string on each line.
    """
    place = Path(path)
    listed = place.with_suffix(".jsonl")
    for each in (place, listed):
        if not each.is_file():
            raise FileNotFoundError(f"There is no file {each}; embeddings are an array and its sentences in .jsonl.")
    array = _array(place)
    sentences = read_sentences(listed)
    if array.ndim != 2 or array.dtype.kind != "f":
        raise ValueError(f"{place} should hold floats of shape (N, D), not {array.dtype} of shape {array.shape}.")
    if len(array) != len(sentences):
        raise ValueError(f"{place} has {len(array)} rows and {listed} {len(sentences)} sentences.")
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if not np.isfinite(single).all():
        bad = int((~np.isfinite(single).all(axis=1)).sum())
        raise ValueError(f"{place} has NaN or infinity in {bad} rows, or numbers too large for float32.")
    if len(set(sentences)) < len(sentences):
        repeated = next(text for text, number in Counter(sentences).items() if number > 1)
        raise ValueError(f"{listed} has {repeated!r} more than once, and so more than one embedding for it.")
    store = Embeddings()
    store.add(sentences, np.arange(len(sentences)), np.zeros(len(sentences), dtype=bool), single)
    return store, About(str(place), "as supplied", None, array.shape[1])


def write_sentences(path: str | Path, texts: Sequence[str]) -> int:
    """Writes the distinct sentences as JSON lines, for the user's own encoder, and returns their number. A file with
    other lines is not overwritten, because embeddings may already lie beside it."""
    distinct = list(dict.fromkeys(texts))
    content = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in distinct)
    if Path(path).is_file() and Path(path).read_bytes() != content.encode():
        raise ValueError(f"{path} holds other lines already; move it away, or give another name.")
    atomic_write(Path(path), content)
    return len(distinct)


def read_sentences(path: Path) -> list[str]:
    sentences = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text in UTF-8.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            text = parse_json(line, "a line", str)
        except ValueError:
            raise ValueError(
                f"{path}, line {number} should be a sentence as a JSON string, not {line[:40]!r}."
            ) from None
        sentences.append(text)
    return sentences


def _array(path: Path) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as packed:
                need_memory(packed.getinfo("embeddings.npy").file_size, "the array in it")
            with np.load(path, allow_pickle=False) as archive:
                return np.asarray(archive["embeddings"])
        if path.suffix == ".safetensors":
            tensor = need("safetensors.torch", "cli", "A .safetensors file").load_file(path)["embeddings"]
            few = tensor.is_floating_point() and tensor.dtype.itemsize < 4  # numpy lacks some of these types
            return np.asarray(tensor.float() if few else tensor)
    except KeyError:
        raise ValueError(f"{path} has no array named 'embeddings'.") from None
    except Exception as error:  # each format raises its own errors
        raise ValueError(f"{path} cannot be read: {first_line(error)}") from None
    raise ValueError(f"{path} should end in .npy, .npz or .safetensors.")
