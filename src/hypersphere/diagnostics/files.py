"""Embeddings from files: one or two views, and labels.

A file may be larger than memory: .npy and .safetensors are mapped, large arrays of an .npz or .parquet are unpacked
into a temporary file, a piece at a time, and mapped from there.
Nothing is ever unpickled: an .npy or .npz with Python objects is refused.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np

from hypersphere.names import nearest

SUFFIXES = (".npy", ".npz", ".safetensors", ".parquet")
RUN_FILE = "embeddings.safetensors"  # file in a run's folder: z1, and z2 where there are two views
VIEW_NAMES = ("z1", "z2")
LABEL_NAMES = ("labels", "label")
# Errors raised by a truncated or altered file: its header may be invalid, or name a method or a size that do not exist.
DAMAGE = (ValueError, OSError, EOFError, KeyError, RuntimeError, MemoryError, OverflowError, SyntaxError, TokenError)
SPILL = 2**26  # bytes of an unpacked array that are kept in memory


class NoRoomError(ValueError):
    """The disk has no room for the contents of a file; the file itself may be whole."""


class Loaded(NamedTuple):
    """Contents of a file: arrays (N, D) or tensors."""

    z1: Any
    z2: Any = None
    labels: Any = None
    note: str = ""  # names the parts that were left out, if any
    texts: Sequence[str] | None = None  # the text that row i embeds, if known
    lines: int = 0  # that the text has
    drawn: Sequence[int] | None = None  # those that were embedded, if not all


def load_embeddings(
    path: Path, second: Path | None = None, arrays: Sequence[str] = (), *, labelled: bool = True
) -> Loaded:
    """One or two views from a file, or one from each of two files.

    .npy: (N, D), or (2, N, D) for two views; .npz and .safetensors: arrays z1 and z2, or the only one, or those named
    in ``arrays``, and labels; .parquet: columns of lists, or a table of numbers; a run's folder: its embeddings.
    labelled: False if labels come from elsewhere: a column of labels in a .parquet is then not read.
    """
    first = _load(path, arrays[:1] if second is not None else arrays, labelled)
    if second is None:
        return first
    other = _load(second, arrays[1:] or arrays, labelled)
    for loaded, name in ((first, path), (other, second)):
        if loaded.z2 is not None:
            raise ValueError(f"{name} holds two views by itself; give one file with both, or two files with one each")
    notes = " ".join(dict.fromkeys(note for note in (first.note, other.note) if note))
    return Loaded(first.z1, other.z1, first.labels if first.labels is not None else other.labels, notes)


def load_labels(path: Path) -> Any:
    """Labels from an .npy, or from a text with one in each line: words, or whole numbers, of which -1 means none."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} with labels")
    if path.suffix == ".npy":
        return _numpy(path)
    try:
        lines = text_lines(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as text with one label in each line") from error
    if lines and all(re.fullmatch(r"[+-]?[0-9]{1,18}", line) for line in lines):
        return np.array([int(line) for line in lines], dtype=np.int64)
    return np.array(lines)


def text_lines(path: Path) -> list[str]:
    """The lines of a text in UTF-8, without the mark some editors put first and without the spaces around a line.

    Only the file's line ends separate lines; the other separators of ``str.splitlines`` belong to the line.
    """
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n")]
    return lines if lines[-1] else lines[:-1]


def _load(path: Path, arrays: Sequence[str], labelled: bool) -> Loaded:
    if path.is_dir():
        if not (path / RUN_FILE).is_file():
            raise FileNotFoundError(f"{path} is a folder without {RUN_FILE}; a model's folder needs a text beside it")
        path = path / RUN_FILE
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix not in SUFFIXES:
        near = nearest(path.suffix, SUFFIXES)
        hint = f" (did you mean {near}?)" if near else ""
        raise ValueError(f"embeddings come as {', '.join(SUFFIXES)}, not as {path.name}{hint}")
    if path.suffix == ".npy":
        both = _numpy(path)
        return Loaded(both[0], both[1]) if both.ndim == 3 and len(both) == 2 else Loaded(both)
    if path.suffix == ".npz":
        return _choose(path, _archive(path), arrays)
    if path.suffix == ".safetensors":
        return _choose(path, _safetensors(path), arrays)
    return _parquet(path, arrays, labelled)


def _choose(path: Path, by_name: dict[str, Any], names: Sequence[str]) -> Loaded:
    """The views among named arrays: the requested ones, else z1 and z2, else the only one."""
    labels = next((by_name[name] for name in LABEL_NAMES if name in by_name), None)
    every = [name for name in by_name if name not in LABEL_NAMES]
    if not names:
        names = [name for name in VIEW_NAMES if name in by_name] or every
        if not names:
            raise ValueError(f"{path} holds no embeddings")
        if len(names) > 1 and names[0] != VIEW_NAMES[0]:
            raise ValueError(f"{path} holds {_listed(every)}: say which are the embeddings (the two views)")
    for name in names:
        if name not in by_name:
            near = nearest(name, every)
            hint = f" (did you mean {near}?)" if near else ""
            raise ValueError(f"{path} has no {name!r}{hint}; it has {_listed(every)}")
    if len(names) > 2:
        raise ValueError(f"at most two arrays can be views of each other, not {_listed(names)}")
    return Loaded(*(by_name[name] for name in names), **({} if labels is None else {"labels": labels}))


def _numpy(path: Path) -> Any:
    try:
        return np.lib.format.open_memmap(path, mode="r")  # a mapped file cannot hold objects, hence nothing to unpickle
    except DAMAGE as error:
        raise ValueError(f"{path} cannot be read as npy: {_reason(error)}") from error


def _archive(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be read as npz: it is not a complete zip archive")
    try:
        with np.load(path, allow_pickle=False) as archive, zipfile.ZipFile(path) as packed:
            sizes = {member.filename.removesuffix(".npy"): member for member in packed.infolist()}
            large = {name for name in archive.files if sizes[name].file_size > SPILL}
            return {name: _unpacked(packed, sizes[name]) if name in large else archive[name] for name in archive.files}
    except (*DAMAGE, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as npz: {_reason(error)}") from error


def _unpacked(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """A member of an archive, mapped from a temporary file that is deleted after its last use."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        _reserve(file.fileno(), member.file_size)
        with packed.open(member) as stream:
            shutil.copyfileobj(stream, file)
        file.flush()
        return np.load(file.name, mmap_mode="r", allow_pickle=False)


def _room(shape: tuple[int, int], dtype: Any) -> Any:
    """An array to be filled: in memory, or, if it is large, in a temporary file."""
    if shape[0] * shape[1] * np.dtype(dtype).itemsize <= SPILL:
        return np.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile() as file:
        _reserve(file.fileno(), shape[0] * shape[1] * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


def _reserve(handle: int, size: int) -> None:
    """Reserves the room of a temporary file before anything is written: a disk that fills up under a mapped file ends
    the process with a signal."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        elif shutil.disk_usage(tempfile.gettempdir()).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "no disk does"
        raise NoRoomError(
            f"unpacking it takes {size / 1e6:,.0f} MB of temporary files, which {tempfile.gettempdir()} does not have "
            f"({why}); TMPDIR can name another folder"
        ) from None


def _safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ModuleNotFoundError("reading .safetensors needs an extra: pip install 'hypersphere-lab[cli]'") from error
    try:
        with safe_open(path, framework="pt") as archive:
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read as safetensors: {_reason(error)}") from error
    for name, values in tensors.items():
        if "float4" in str(values.dtype):
            raise ValueError(f"{path} holds {name!r} as {values.dtype}; save it with at least 8 bits a number")
    return tensors


def _parquet(path: Path, names: Sequence[str], labelled: bool) -> Loaded:
    """Columns of lists are views; without any, the numeric columns together are one."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ModuleNotFoundError("reading .parquet needs pyarrow: pip install pyarrow") from error
    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
            wide = [field.name for field in schema if _is_list(pa, field.type)]
            label = next((name for name in LABEL_NAMES if labelled and name in schema.names), None)
            labels = {} if label is None else {"labels": _label_column(pa, path, file, label)}
            if wide or names:
                chosen = _choose(path, {name: name for name in wide}, names)
                views = [_column(path, file, name, count) for name in (chosen.z1, chosen.z2) if name is not None]
                return Loaded(*views, **labels)
            columns, note = _numeric(pa, path, schema)
            together = _room((count, len(columns)), np.float32)
            for place, name in enumerate(columns):
                together[:, place] = file.read([name]).column(0).to_numpy(zero_copy_only=False)
            return Loaded(together, **labels, note=note)
    except (pa.ArrowException, NoRoomError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {_reason(error)}") from error


def _numeric(pa: Any, path: Path, schema: Any) -> tuple[list[str], str]:
    """The columns that are dimensions (fractions; whole numbers beside them are ids or counts), and a note."""
    fields = [field for field in schema if field.name not in LABEL_NAMES]
    fractions = [field.name for field in fields if pa.types.is_floating(field.type)]
    whole = [field.name for field in fields if pa.types.is_integer(field.type)]
    if not fractions and not whole:
        raise ValueError(f"{path} has neither a column of lists nor columns of numbers")
    if not fractions or not whole:
        return fractions or whole, ""
    return fractions, f"Columns of whole numbers were left out: {_listed(whole)}."


def _label_column(pa: Any, path: Path, file: Any, name: str) -> Any:
    """One label for each row; a column of another type, or with gaps, is refused."""
    kind = file.schema_arrow.field(name).type
    if pa.types.is_nested(kind):
        raise ValueError(f"column {name!r} of {path} holds {kind}; labels are one whole number or word for each row")
    column = file.read([name]).column(0)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        none = " (-1 stands for none)" if pa.types.is_integer(kind) else ""
        raise ValueError(f"column {name!r} of {path} is null in row {row}; every row needs a label{none}")
    return column.to_numpy(zero_copy_only=False)


def _column(path: Path, file: Any, name: str, count: int) -> Any:
    """A column of lists as one array, a batch of rows at a time."""
    array: Any = None
    done = 0
    for batch in file.iter_batches(batch_size=8192, columns=[name]):
        column = batch.column(0)
        sizes = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        width = int(sizes[0]) if array is None else array.shape[1]
        wrong = np.flatnonzero((sizes != width) | (sizes < 0))
        if len(wrong):
            raise ValueError(f"column {name!r} of {path} {_unlike(done + int(wrong[0]), int(sizes[wrong[0]]), width)}")
        values = column.flatten()
        if values.null_count:
            row = done + int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]) // width
            raise ValueError(f"column {name!r} of {path} has a null among the numbers of row {row}")
        plain = values.to_numpy(zero_copy_only=False)
        if array is None:
            array = _room((count, width), plain.dtype)
        array[done : done + len(batch)] = plain.reshape(len(batch), width)
        done += len(batch)
    return np.empty((0, 0), dtype=np.float32) if array is None else array


def _unlike(row: int, size: int, width: int) -> str:
    """A description of the first list that differs from those before it."""
    if size < 0:
        return f"is null in row {row}"
    return f"has lists of different lengths: {size} numbers in row {row}, {width} in row 0"


def _is_list(pa: Any, kind: Any) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "") or "nothing"


def _reason(error: Exception) -> str:
    """The first line of an error, short. Numpy's own message about objects, which advises unpickling, is replaced."""
    words = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    if isinstance(error, NoRoomError):
        return words
    return "it holds Python objects, which are never loaded" if "object" in words.lower() else words[:150]
