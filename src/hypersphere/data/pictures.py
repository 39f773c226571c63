"""Pictures from folders (one for each class, or without labels), and from datasets of the Hugging Face hub or saved by
its library."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.data.extras import need
from hypersphere.data.images import ImageSet
from hypersphere.limits import need_memory
from hypersphere.messages import quoted, reason

GREY = ("1", "L")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")

ImagesOfSplit = tuple[ImageSet, bool]  # and whether the source itself separates training and test
Picture = tuple[str, Callable[[], bytes]]  # a name for messages, and a function that reads the file


def read_folder(path: Path, split: str, size: int | None) -> ImagesOfSplit:
    """A folder for each class, or pictures side by side, which have no labels; inside train/ and test/ (or val/) if
    these exist."""
    train, test = path / "train", path / ("test" if (path / "test").is_dir() else "val")
    cut = train.is_dir()
    if cut and not test.is_dir():
        raise FileNotFoundError(f"{path} has train but neither test nor val beside it")
    # the training part names the classes: a class that the test lacks keeps its number
    classes = _classes(train if cut else path)
    strange = sorted(set(_classes(test)) - set(classes)) if cut else []
    if strange:
        raise ValueError(f"{test} has the class {strange[0]!r}, which is missing in {train}")
    roots = {"train": train, "test": test} if cut else {split: path}
    parts = {part: _labelled(root, classes) for part, root in roots.items()}
    if not all(parts.values()):
        raise ValueError(
            f"{path} is none of the image sets known here: no idx, CIFAR or strip files, no saved dataset, no "
            "pictures, and no sub-folders with pictures, one for each class (in train and in test, if there are those)"
        )
    color = any(_mode((str(file), file.read_bytes)) not in GREY for part in parts.values() for _, file in part)
    images = _stack([(str(file), file.read_bytes) for _, file in parts[split]], color, size, str(path))
    labels = torch.tensor([label for label, _ in parts[split]])
    return ImageSet(images, labels, tuple(classes), path.resolve().name), cut


def _classes(root: Path) -> list[str]:
    """The sub-folders that hold pictures, in order; none where the pictures lie side by side."""
    folders = sorted(each for each in root.iterdir() if each.is_dir() and not each.name.startswith("."))
    beside = [each for each in root.iterdir() if _is_picture(each)]
    if not beside:
        return [each.name for each in folders]
    if any(_is_picture(file) for each in folders for file in each.rglob("*")):
        raise ValueError(
            f"{root} has pictures beside its sub-folders ({beside[0].name}) and in them: put each into the folder of "
            "its class, or all into one folder, without labels"
        )
    return []


def _labelled(root: Path, classes: list[str]) -> list[tuple[int, Path]]:
    """The pictures with the number of their class; -1 without classes."""
    if not classes:
        return [(-1, file) for file in sorted(root.iterdir()) if _is_picture(file)]
    files = ((label, sorted((root / name).rglob("*"))) for label, name in enumerate(classes))
    return [(label, file) for label, paths in files for file in paths if _is_picture(file)]


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")  # ._x.png: added by macOS


def read_hub(name: str, split: str, size: int | None = None) -> ImagesOfSplit:
    """A dataset of the Hugging Face hub, ``owner/name`` or ``owner/name:configuration``."""
    datasets = need("datasets", "train", "a dataset of the hub")
    name, _, configuration = name.partition(":")
    try:
        dataset = datasets.load_dataset(name, configuration or None)
    except Exception as error:  # of many kinds: no such name, no network, a script instead of files
        raise ValueError(f"the dataset {name!r} could not be loaded: {reason(error)}") from error
    return _from_dataset(dataset, split, size, name)


def read_saved(path: Path, split: str, size: int | None) -> ImagesOfSplit:
    """A folder written by ``save_to_disk``."""
    datasets = need("datasets", "train", "a saved dataset")
    try:
        dataset = datasets.load_from_disk(str(path))
    except Exception as error:  # of many kinds: missing files, or settings of the wrong type
        raise ValueError(f"the dataset {path} could not be loaded: {reason(error)}") from error
    return _from_dataset(dataset if isinstance(dataset, dict) else {"train": dataset}, split, size, path.resolve().name)


def _from_dataset(parts: Any, split: str, size: int | None, name: str) -> ImagesOfSplit:
    cut = len(parts) > 1
    names = (split,) if split == "train" else (split, "validation", "valid", "val")
    chosen = next((part for part in names if part in parts), None) if cut else next(iter(parts))
    if chosen is None:
        raise ValueError(f"the dataset {name!r} has no {split!r} (it has {', '.join(parts)})")
    datasets = need("datasets", "train", "a dataset")
    kinds = parts[chosen].features
    images = [column for column, kind in kinds.items() if isinstance(kind, datasets.Image)]
    labels = [column for column, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)]
    if not images:
        raise ValueError(f"the dataset {name!r} has no images among its columns ({', '.join(kinds)})")
    pictures = {part: _column(rows, images[0], datasets) for part, rows in parts.items() if part in ("train", chosen)}
    color = any(_mode(picture) not in GREY for part in pictures.values() for picture in part)
    stacked = _stack(pictures[chosen], color, size, f"the dataset {name!r}")
    if not labels:
        return ImageSet(stacked, torch.full((len(stacked),), -1), (), name), cut
    marks = torch.tensor(parts[chosen][labels[0]][:])
    return ImageSet(stacked, marks, tuple(kinds[labels[0]].names), name), cut


def _column(rows: Any, column: str, datasets: Any) -> list[Picture]:
    """The pictures of a dataset, still in the form of files."""
    files = rows.cast_column(column, datasets.Image(decode=False))[column]

    def content(file: dict[str, Any]) -> Callable[[], bytes]:
        return lambda: file["bytes"] if file["bytes"] is not None else Path(file["path"]).read_bytes()

    return [(f"row {number}", content(file)) for number, file in enumerate(files)]


# ---- from files to bytes of pixels ----


def pixels(picture: Picture, color: bool, size: int | None = None) -> Tensor:
    """(C, H, W) of bytes; rotated by the EXIF orientation, and cropped to the centre square if a size is given."""
    operations = need("PIL.ImageOps", "image", "a picture")

    def read(opened: Any) -> Tensor:
        if opened.mode.startswith(("I", "F")):
            raise ValueError(f"{picture[0]} has more than 8 bits a channel (mode {opened.mode}): convert it first")
        upright = operations.exif_transpose(opened).convert("RGB" if color else "L")
        if size is not None:
            upright = operations.fit(upright, (size, size))
        raster = torch.from_numpy(np.array(upright, dtype=np.uint8))
        return raster.permute(2, 0, 1).contiguous() if color else raster.unsqueeze(0)

    image: Tensor = _opened(picture, read)
    return image


def height(picture: Picture) -> int:
    """The number of rows of pixels, from the picture's head."""
    rows: int = _opened(picture, lambda opened: opened.height)
    return rows


def _mode(picture: Picture) -> str:
    mode: str = _opened(picture, lambda opened: opened.mode)
    return mode


def _opened(picture: Picture, use: Callable[[Any], Any]) -> Any:
    name, content = picture
    data = content()
    library = need("PIL.Image", "image", "a picture")
    try:
        with library.open(io.BytesIO(data)) as opened:
            return use(opened)
    except library.DecompressionBombError as error:
        raise ValueError(f"{name} of {len(data)} bytes is refused: {error}") from None
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{name} of {len(data)} bytes is not a whole picture: {error}") from None


def _stack(pictures: Sequence[Picture], color: bool, size: int | None, where: str) -> Tensor:
    kept: list[Tensor] = []
    if size is not None:
        need_memory(len(pictures) * (3 if color else 1) * size**2, f"{len(pictures)} pictures of {quoted(size)} pixels")
    for picture in pictures:
        kept.append(pixels(picture, color, size))
        if kept[-1].shape != kept[0].shape:
            first, other = (f"{each.shape[2]}×{each.shape[1]}" for each in (kept[0], kept[-1]))
            raise ValueError(
                f"{where} has pictures of several sizes, {first} and {other} ({picture[0]}): give data.size=64, or "
                "another side in pixels, for squares of one size"
            )
    return torch.stack(kept)
