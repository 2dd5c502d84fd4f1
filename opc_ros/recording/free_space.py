"""How much room a disk has, without ever waiting for it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path


class FreeSpace:
    """Looks from a thread of its own: a file server that hangs holds up that thread alone."""

    def __init__(self, path: Path, *, period_s: float = 1.0) -> None:
        self._path = path
        self._period_s = period_s
        self._is_closing = threading.Event()
        self._found: int | OSError = shutil.disk_usage(path).free
        self._thread = threading.Thread(target=self._run, name="free space", daemon=True)
        self._thread.start()

    def read(self) -> int:
        """Bytes free when it was last looked; raises the OSError that was met instead."""
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
