"""Scheduling priority for the nodes between a person's stop and an arm, over whatever else their machine computes."""

from __future__ import annotations

import contextlib
import os
import sys
from enum import StrEnum
from pathlib import Path

REAL_TIME_PRIORITY = 10
NICENESS = -10
SESSION = Path("/proc/self/autogroup")


class Precedence(StrEnum):
    """How urgently a node needs the processor when its machine is overloaded."""

    NONE = "none"
    HIGH = "high"  # gets most of a core when it needs one, but other processes still run
    REAL_TIME = "real time"  # runs before everything else; only for nodes that need little time


def take_precedence(wanted: Precedence) -> bool:
    """Raise the priority of this process and the threads it starts from now on; returns whether the system allows it.

    Requires root, CAP_SYS_NICE, or limits (`rtprio` and `nice` in /etc/security/limits.d).
    """
    if wanted is Precedence.NONE:
        return True
    if sys.platform != "linux":
        return False
    try:
        if wanted is Precedence.REAL_TIME:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REAL_TIME_PRIORITY))
        else:
            os.setpriority(os.PRIO_PROCESS, 0, min(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
            _raise_session()
    except PermissionError:
        return False
    return True


def _raise_session() -> None:
    """Raise the session's weight: where Linux shares cores between sessions first, niceness only counts within one."""
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # not every kernel schedules by session
            SESSION.write_text(str(NICENESS))
