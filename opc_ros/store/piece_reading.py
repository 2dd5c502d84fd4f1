"""Reading consecutive pieces of a large file as fast as the disk allows."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

AHEAD_BYTES = 8 * 1024 * 1024  # how much the disk reads ahead while the caller works
GAP_BYTES = 4096  # largest gap between pieces that counts as reading in order


class PieceReader:
    """Keeps the last file open and, when pieces are read in order, reads ahead; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._descriptor = -1
        self._end = -1  # of the last piece
        self._asked = 0  # end of what the disk was asked to read ahead

    def read(self, path: Path, start: int, length: int) -> bytes:
        """Read these bytes, or as many as there are; raises OSError if the file no longer exists."""
        with self._lock:
            self._open(path)
            data = os.pread(self._descriptor, length, start)
            self._fetch_next(start, start + length)
        return data

    def _open(self, path: Path) -> None:
        """Open the file that the path refers to now, in case it was removed or replaced."""
        named = os.stat(path)
        if self._path == path:
            opened = os.fstat(self._descriptor)
            if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino):
                return
        self._close()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._path, self._end, self._asked = path, -1, 0

    def _fetch_next(self, start: int, end: int) -> None:
        is_next = 0 <= start - self._end <= GAP_BYTES
        self._end = end
        if is_next and self._asked < end + AHEAD_BYTES // 2:
            self._asked = max(self._asked, end)
            with contextlib.suppress(OSError):  # a file system without read-ahead is only slower
                os.posix_fadvise(self._descriptor, self._asked, end + AHEAD_BYTES - self._asked, os.POSIX_FADV_WILLNEED)
            self._asked = end + AHEAD_BYTES

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = None, -1

    def __del__(self) -> None:
        self._close()
