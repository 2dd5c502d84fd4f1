"""Priority of a process over everything else on its machine."""

from __future__ import annotations

import os
from pathlib import Path

THREADS = Path("/proc/self/task")


def set_niceness(niceness: int) -> bool:
    """Set the niceness of every thread; returns whether the system allowed it."""
    # Linux has a niceness per thread, and DDS's threads may already be running.
    threads = [int(path.name) for path in THREADS.iterdir()] if THREADS.is_dir() else [0]
    try:
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
    except (PermissionError, ProcessLookupError):
        return False
    return True
