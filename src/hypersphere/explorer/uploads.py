"""Uploaded files: streamed to a temporary folder, limited in size and number, found again by a random name."""

from __future__ import annotations

import errno
import secrets
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from hypersphere.diagnostics.files import SUFFIXES
from hypersphere.explorer.folders import NotHereError
from hypersphere.messages import one_line

LARGEST = 2**29  # bytes of one upload
MOST_KEPT = 24  # uploads of all tabs together; then the oldest goes
MOST_BYTES = 2**31  # of all that are kept
SPARE = 2**28  # bytes of the disk that stay free
TEXTS = (".txt",)


class TooLargeError(ValueError):
    """An upload beyond the limit."""


class Uploads:
    """The uploads of one server. Each has an id that nobody guesses, so tabs do not see each other's."""

    def __init__(self, folder: Path, largest: int = LARGEST) -> None:
        self.folder, self.largest = folder, largest
        self._kept: dict[str, tuple[Path, str, int]] = {}  # by id: the file, its name as given, its size
        self._lock = threading.Lock()

    def check_name(self, name: str) -> str:
        """The suffix of a file's name; a name with any other suffix is refused before anything is read."""
        suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
        if suffix not in (*SUFFIXES, *TEXTS):
            raise ValueError(
                f"embeddings come as {', '.join(SUFFIXES)}, and texts as .txt, not as {one_line(name, 80)!r}"
            )
        return suffix

    def too_large(self) -> TooLargeError:
        return TooLargeError(
            f"the file is larger than {self.largest / 1e6:,.0f} MB, the most that can be uploaded; hypersphere explore "
            "--embeddings FILE reads it where it is"
        )

    def keep(self, name: str, pieces: Iterable[bytes]) -> dict[str, str | int]:
        """Writes pieces as they arrive and returns the id; beyond the limit, nothing is kept."""
        suffix, token = self.check_name(name), secrets.token_urlsafe(12)
        path, size = self.folder / f"{token}{suffix}", 0
        try:
            if shutil.disk_usage(self.folder).free < SPARE:
                raise OSError(errno.ENOSPC, "no space left")
            with path.open("xb") as file:
                for piece in pieces:
                    size += len(piece)
                    if size > self.largest:
                        raise self.too_large()
                    file.write(piece)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ValueError("the disk has no room for the upload") from None
            raise
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        with self._lock:
            self._kept[token] = path, one_line(name, 80), size
            while len(self._kept) > MOST_KEPT or sum(each[2] for each in self._kept.values()) > MOST_BYTES:
                oldest = next(iter(self._kept))
                self._kept.pop(oldest)[0].unlink(missing_ok=True)
        return {"id": token, "name": one_line(name, 80), "bytes": size}

    def names(self) -> dict[str, str]:
        """By the name of the file that is kept: its name as given."""
        with self._lock:
            return {path.name: given for path, given, _ in self._kept.values()}

    def find(self, token: str) -> tuple[Path, str]:
        """The file of an upload and its name as given."""
        with self._lock:
            if token not in self._kept:
                raise NotHereError("this upload is no longer kept; drop the file again")
            self._kept[token] = self._kept.pop(token)  # the latest used goes last
            return self._kept[token][:2]
