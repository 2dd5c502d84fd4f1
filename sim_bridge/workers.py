"""Worker processes: they leave Ctrl-C to whoever started them, and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def begin_worker() -> None:
    """Call first in a worker. A killed parent cannot tell its workers to end, and they would wait for work forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which then ends its workers
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
