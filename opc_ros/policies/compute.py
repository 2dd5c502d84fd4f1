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
    """Let torch use this many cores in the calling thread, so that threads side by side do not fight over them."""
    import torch

    torch.set_num_threads(count)


def give_way() -> None:
    """Let the calling thread stand back, for good, behind whatever moves an arm on the same machine.

    Where Linux shares cores between sessions first, niceness counts only within one; a process that has a session to
    itself, as every node of `opc up`, makes that session stand back too.
    """
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # not every kernel shares by sessions, and some sessions may not ask
            SESSION.write_text(str(NICENESS))


def choose_device() -> str:
    """The GPU when there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
