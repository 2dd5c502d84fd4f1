"""Which device and how many cores Q functions use."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

NICENESS = 10
SESSION = Path("/proc/self/autogroup")


def limit_threads_here(count: int) -> None:
    """Let torch use this many cores in the calling thread, so that parallel threads do not compete for them."""
    import torch

    torch.set_num_threads(count)


def give_way() -> None:
    """Lower the calling thread's priority for the rest of its life, below whatever moves an arm on the same machine.

    Where Linux divides cores among sessions first (autogroups), niceness only counts within a session; a process that
    leads its own session, like every node of `opc up`, lowers the priority of that session as well.
    """
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # not every kernel has autogroups, and some sessions may not change theirs
            SESSION.write_text(str(NICENESS))


def choose_device() -> str:
    """The GPU if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
