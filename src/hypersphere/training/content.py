"""What a run is trained on, in a few characters, so that a resumed run can tell whether it is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

_TOGETHER = 10_000  # texts hashed at a time


@dataclass(frozen=True)
class Content:
    """How many rows there are, and a hash of all of them in their order."""

    rows: int
    hash: str


def content_of_texts(columns: Sequence[Sequence[str]]) -> Content:
    """Of the texts of a corpus, column by column.

    >>> content_of_texts([["ab", "c"]]) == content_of_texts([["a", "bc"]])
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for column in columns:
        for start in range(0, len(column), _TOGETHER):
            digest.update("\0".join([*column[start : start + _TOGETHER], ""]).encode(errors="surrogatepass"))
        digest.update(b"\0\0")
    return Content(len(columns[0]), digest.hexdigest())


def content_of_images(images: Tensor, labels: Tensor) -> Content:
    """Of images (N, C, H, W) and their labels (N,)."""
    digest = hashlib.blake2b(str(tuple(images.shape)).encode(), digest_size=16)
    for part in (images, labels):
        digest.update(part.contiguous().numpy().data)
    return Content(len(images), digest.hexdigest())
