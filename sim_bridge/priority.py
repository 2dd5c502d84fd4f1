"""Precedence of a process over whatever else its machine computes."""

from __future__ import annotations

import os
from pathlib import Path

THREADS = Path("/proc/self/task")


def set_niceness(niceness: int) -> bool:
    """Set the niceness of every thread; returns whether the system allowed it."""
    # Linux keeps it for each thread, and the threads of DDS may already run.
    threads = [int(path.name) for path in THREADS.iterdir()] if THREADS.is_dir() else [0]
    try:
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
    except (PermissionError, ProcessLookupError):
        return False
    return True
