"""Reading pieces of one large file after the other, as fast as the disk gives them."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

AHEAD_BYTES = 8 * 1024 * 1024  # asked of the disk while the caller works on what it has
GAP_BYTES = 4096  # pieces lie one behind the other but for what stands between them


class PieceReader:
    """Keeps the last file open and, once pieces are read in order, has the next ones fetched; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._descriptor = -1
        self._end = -1  # of the last piece
        self._asked = 0  # up to where the disk was asked to fetch

    def read(self, path: Path, start: int, length: int) -> bytes:
        """These bytes, or as many of them as there are; OSError where the file is not there any more."""
        with self._lock:
            self._open(path)
            data = os.pread(self._descriptor, length, start)
            self._fetch_next(start, start + length)
        return data

    def _open(self, path: Path) -> None:
        """The file that the name stands for now: one that was removed or replaced is not read on."""
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
            with contextlib.suppress(OSError):  # a file system that fetches nothing ahead is only slower
                os.posix_fadvise(self._descriptor, self._asked, end + AHEAD_BYTES - self._asked, os.POSIX_FADV_WILLNEED)
            self._asked = end + AHEAD_BYTES

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = None, -1

    def __del__(self) -> None:
        self._close()
