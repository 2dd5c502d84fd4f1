"""How much space a disk has left, without ever waiting for it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path


class FreeSpace:
    """Polls the disk in a separate thread, so that a hanging file server blocks only that thread."""

    def __init__(self, path: Path, *, period_s: float = 1.0) -> None:
        self._path = path
        self._period_s = period_s
        self._is_closing = threading.Event()
        self._found: int | OSError = shutil.disk_usage(path).free
        self._thread = threading.Thread(target=self._run, name="free space", daemon=True)
        self._thread.start()

    def read(self) -> int:
        """Free bytes at the last look; raises the OSError of that look, if there was one."""
        if isinstance(self._found, OSError):
            raise self._found
        return self._found

    def close(self) -> None:
        self._is_closing.set()

    def _run(self) -> None:
        while not self._is_closing.wait(self._period_s):
            try:
                self._found = shutil.disk_usage(self._path).free
            except OSError as error:
                self._found = error
