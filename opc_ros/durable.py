"""Files that exist completely or not at all, even after a crash."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from opc_ros.errors import StoreError

PART = ".part"

_PIECES_AT_ONCE = 1024  # the kernel's limit
_WRITE = 2  # SYNC_FILE_RANGE_WRITE
_WRITE_AND_WAIT = 1 | _WRITE | 4  # SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_NO_LINKS_HERE = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def store_error(what: str, error: OSError) -> StoreError:
    """A one-line error for what the file system refused, with advice for the most common cause."""
    advice = "; free space and try again" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else ""
    return StoreError(f"{what}: {error.strerror or error}{advice}")


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and make them survive a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *, is_name_synced: bool = True) -> None:
    """Write beside, fsync, rename over the old file; fsync the folder unless the old content may come back."""
    part = _write_beside(path, data)
    try:
        part.rename(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    if is_name_synced:
        sync_folder(path.parent)


def swap_file(path: Path, data: bytes) -> None:
    """For files that can be recreated: replaced atomically, but a power cut may take them."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}{PART}")
    try:
        part.write_bytes(data)
        part.rename(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def create_file(path: Path, data: bytes) -> bool:
    """Like replace_file, but returns False if the name is taken: of two processes exactly one gets it."""
    part = _write_beside(path, data)
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS_HERE:
            raise
        if not _create_without_links(path, data):
            return False
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def try_lock(descriptor: int) -> bool | None:
    """True if this process now holds the file, False if another does, None if the file system has no locks.

    The lock ends with its process, however that ends, so it tells a running writer from a dead one.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS_HERE:
            return None
        raise
    return True


def wait_for_lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise


def is_same_file(path: Path, descriptor: int) -> bool:
    """Whether a path still refers to an open file."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def age_s(file: Path | int) -> float:
    """How long ago a file was last written, by the file system's own clock."""
    return time.time() - os.stat(file).st_mtime


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_pieces(descriptor: int, pieces: Sequence[bytes]) -> None:
    """Write several pieces of data without joining them first."""
    for first in range(0, len(pieces), _PIECES_AT_ONCE):
        some = pieces[first : first + _PIECES_AT_ONCE]
        written = os.writev(descriptor, some)
        if written < sum(map(len, some)):
            write_all(descriptor, b"".join(some)[written:])


def write_synced(path: Path, data: bytes, *, flags: int = os.O_TRUNC) -> None:
    """Write a file in place and wait until it is on disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BackgroundCall:
    """A call that waits for the disk while the calling thread goes on."""

    def __init__(self, function: Callable[..., None], *arguments: int) -> None:
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, function: Callable[..., None], arguments: tuple[int, ...]) -> None:
        try:
            function(*arguments)
        except OSError as error:
            self._error = error


def begin_writing_out(descriptor: int) -> None:
    """Have the kernel start writing a file's bytes to disk while the caller goes on."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, 0, 0, _WRITE)  # if it cannot, `write_out` does everything


def write_out(descriptor: int) -> None:
    """Wait until a file's bytes are written, but not for the file system's journal.

    After that, journaling file systems never make a later rename durable before these bytes. Elsewhere this is an
    fsync.
    """
    call = _sync_file_range()
    if call is None or call(descriptor, 0, 0, _WRITE_AND_WAIT) != 0:
        os.fsync(descriptor)


def sync_together(*descriptors: int) -> None:
    """Wait until several files or folders are on disk, concurrently, so that they share a journal commit and flush."""
    calls = [BackgroundCall(os.fsync, descriptor) for descriptor in descriptors[1:]]
    try:
        os.fsync(descriptors[0])
    finally:
        for call in calls:
            call.wait()


@functools.cache
def _sync_file_range() -> Callable[..., int] | None:
    """Linux's sync_file_range, which Python does not offer."""
    try:
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    call.restype = ctypes.c_int
    found: Callable[..., int] = call
    return found


def _write_beside(path: Path, data: bytes) -> Path:
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}{PART}")
    try:
        write_synced(part, data, flags=os.O_EXCL)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    return part


def _create_without_links(path: Path, data: bytes) -> bool:
    try:
        write_synced(path, data, flags=os.O_EXCL)
    except FileExistsError:
        return False
    return True
