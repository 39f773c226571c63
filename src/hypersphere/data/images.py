"""Image sets: one form for images from any kind of file.

train, test = load_images("digits", "train"), load_images("digits", "test")
load_images("/usr/share/datasets/fashion-mnist")      # idx files
load_images("cifar-10-binary.tar.gz", "test")         # an official archive
load_images("photos", size=64)                        # a folder for each class, or of pictures without labels
load_images("hf:owner/name")                          # a dataset of the hub
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.data.extras import need
from hypersphere.documents import locate

SPLITS = ("train", "test")
_CIFAR = "download it from https://www.cs.toronto.edu/~kriz/cifar.html (binary version) and give data.source=PATH"
WHERE = {  # sources of the data sets of the shipped recipes
    "fashion-mnist": "Debian's package dataset-fashion-mnist has it in /usr/share/datasets/fashion-mnist, "
    "https://github.com/zalandoresearch/fashion-mnist its four files (train-images-idx3-ubyte.gz and the like); "
    "give data.source=FOLDER",
    "cifar-10-binary.tar.gz": _CIFAR,
    "cifar-100-binary.tar.gz": _CIFAR,
}


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images (N, C, H, W) of bytes, their labels (N,), and the class names; without classes all labels are -1."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != torch.uint8:
            raise ValueError(
                f"images of {self.name} must be bytes (N, C, H, W), not {self.images.dtype} {tuple(self.images.shape)}"
            )
        if self.labels.shape != self.images.shape[:1] or self.labels.dtype != torch.int64:
            raise ValueError(
                f"{self.name} has {len(self.images)} images, but labels {self.labels.dtype} {tuple(self.labels.shape)}"
            )
        if not len(self.images):
            raise ValueError(f"{self.name} has no images")
        low, high = int(self.labels.min()), int(self.labels.max())
        if not self.classes and (low, high) == (-1, -1):
            return
        if low < 0 or high >= len(self.classes):
            raise ValueError(
                f"labels of {self.name} go from {low} to {high}, but there are {len(self.classes)} classes (0 to "
                f"{len(self.classes) - 1})"
            )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        C, H, W = self.images.shape[1:]
        known = f"{len(self.classes)} classes" if self.labelled else "no labels"
        return f"ImageSet({self.name}: {len(self)} images {C}×{H}×{W}, {known})"

    @property
    def labelled(self) -> bool:
        return bool(self.classes)

    def select(self, rows: Tensor) -> ImageSet:
        """The rows given by number or by a mask, in that order."""
        return ImageSet(self.images[rows], self.labels[rows], self.classes, self.name)


def load_images(source: str, split: str = "train", size: int | None = None, rows: int | None = None) -> ImageSet:
    """The images of ``source``: "digits", a path (see ``hypersphere.data.image_files``), or "hf:owner/name".

    A source without parts of its own (digits, one folder for each class, a dataset with one split) is split into four
    fifths and one fifth, class by class, always the same way. Without labels all of it is for training, since there is
    nothing to test. ``size`` brings the images of a folder or a dataset to one size: shorter side to ``size``, then a
    centre crop. ``rows``: only so many, the first ones; strips after them are not decoded.

    >>> load_images("digits", "test")
    ImageSet(digits: 359 images 1×8×8, 10 classes)
    """
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    images, cut = _read(source, split, size, rows)
    whole = images if cut else _part(images, split)
    return whole if rows is None or rows >= len(whole) else whole.select(torch.arange(rows))


def _read(source: str, split: str, size: int | None, rows: int | None) -> tuple[ImageSet, bool]:
    """The images of a source, and whether it has parts of its own: then they are those of ``split``."""
    from hypersphere.data import image_files, pictures  # imported here: both import ImageSet

    if source == "digits":
        return _digits(), False
    if source.startswith("hf:"):
        return pictures.read_hub(source.removeprefix("hf:"), split, size)
    path = locate(source)
    if not path.exists():
        advice = WHERE.get(path.name, "give 'digits', 'hf:owner/name', or the path of a file or folder")
        raise FileNotFoundError(f"there is no image set {source!r}: {advice}")
    return image_files.read_path(path, split, size, rows)


def _digits() -> ImageSet:
    """Scikit-learn's 1797 handwritten digits, 8×8 in 17 shades, here spread over a byte."""
    digits = need("sklearn.datasets", "train", "the digits").load_digits()
    shades = torch.from_numpy(digits.images).unsqueeze(1)  # (N, 1, 8, 8), 0 … 16
    images = (shades * (255 / 16)).round().to(torch.uint8)
    return ImageSet(images, torch.from_numpy(digits.target).long(), tuple("0123456789"), "digits")


def _part(whole: ImageSet, split: str) -> ImageSet:
    """Four fifths of every class for training, the rest for the test, always the same; all rows without labels."""
    if not whole.labelled:
        if split == "test":
            raise ValueError(f"{whole.name} has no labels and no test part of its own")
        return whole
    training = label_fraction(whole.labels, 0.8, seed=0) >= 0
    return whole.select(training if split == "train" else ~training)


def label_fraction(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """The labels, with -1 for hidden ones: ``fraction`` of every class is kept, drawn by ``seed``.

    A class with n rows keeps round(fraction · n) labels, and at least one unless the fraction is 0.

    >>> label_fraction(torch.tensor([0, 0, 1, 1]), 0.5, seed=0).sort().values
    tensor([-1, -1,  0,  1])
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be a number from 0 to 1, not {fraction!r}")
    generator = torch.Generator().manual_seed(seed)
    kept = torch.full_like(labels, -1)
    for label in labels[labels >= 0].unique():
        rows = (labels == label).nonzero().squeeze(1)
        count = max(round(fraction * len(rows)), 1 if fraction else 0)
        chosen = rows[torch.randperm(len(rows), generator=generator).to(rows.device)[:count]]
        kept[chosen] = label
    return kept
