"""Files that appear complete or not at all, and are on the disk once they are written."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

Content = str | bytes | Callable[[Path], object]
# Errors of opening or syncing a folder on systems that do not support it.
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)
_UNFINISHED = ".unfinished"  # the end of the name of a folder in which a file is written before it is renamed
_DESCRIPTOR = re.compile(r"/dev/(?:fd/([0-9]+)|(stdout)|(stderr))|/proc/self/fd/([0-9]+)")


def atomic_write(path: Path, content: Content) -> Path:
    """Writes beside ``path`` and renames: a reader sees the old file or the new one, never half of it.

    The target of a symbolic link is replaced, not the link; a device, a FIFO or a descriptor (``/dev/stdout``) is
    written into. An existing file keeps its permissions.

    content: the text or bytes, or a function that writes them into the path it is given.
    """
    if (descriptor := _descriptor(path)) is not None:
        _write_into(os.dup(descriptor), content)
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    mode = target.stat().st_mode if target.exists() else stat.S_IFREG | 0o644
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not stat.S_ISREG(mode):
        _write_into(os.open(target, os.O_WRONLY), content)
        return path
    _make_folder(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=_UNFINISHED) as beside:
        fresh = Path(beside) / target.name
        if callable(content):
            content(fresh)
        else:
            fresh.write_bytes(_bytes(content))
        sync(fresh)  # opened anew: the writer may have replaced the file by another
        os.chmod(fresh, stat.S_IMODE(mode))
        os.replace(fresh, target)
    sync(target.parent)
    return path


def sync(path: Path) -> None:
    """A file's bytes, or the names in a folder, are on the disk when this returns."""
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except OSError as error:
        if folder and error.errno in _NO_SYNC:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if not folder or error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)


def unfinished(folder: Path) -> list[Path]:
    """Temporary folders that a killed ``atomic_write`` left in a folder or below it."""
    return [path for path in folder.rglob(f".*{_UNFINISHED}") if path.is_dir()]


def remove_unfinished(folder: Path) -> None:
    """Deletes the temporary folders of a killed ``atomic_write``; no other process may be writing there."""
    for path in unfinished(folder):
        shutil.rmtree(path, ignore_errors=True)


def is_stream(path: Path) -> bool:
    """Whether the path leads to a device, a FIFO, or a descriptor of this process."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file() and not path.is_dir())


def _descriptor(path: Path) -> int | None:
    """The descriptor that a path names. Opening the path anew would truncate its file."""
    match = _DESCRIPTOR.fullmatch(os.path.abspath(path))
    if match is None:
        return None
    number, out, error, process = match.groups()
    return 1 if out else 2 if error else int(number or process)


def _write_into(handle: int, content: Content) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # keeps earlier output first
    if callable(content):
        with tempfile.TemporaryDirectory() as folder:
            content(Path(folder) / "content")
            content = (Path(folder) / "content").read_bytes()
    with os.fdopen(handle, "wb") as file:
        file.write(_bytes(content))


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _make_folder(folder: Path) -> None:
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        sync(each.parent)
