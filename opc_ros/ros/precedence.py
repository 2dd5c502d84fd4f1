"""Precedence of the nodes between a person's stop and an arm over whatever else their machine computes."""

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
    """Before whom a node comes when a machine has more to do than it can."""

    NONE = "none"
    HIGH = "high"  # gets most of a core when it wants one, but others go on
    REAL_TIME = "real time"  # nobody makes it wait; only for what needs little


def take_precedence(wanted: Precedence) -> bool:
    """For this process and the threads it starts from now on; tells whether the system allows it.

    It takes root, CAP_SYS_NICE, or limits (`rtprio` and `nice` in /etc/security/limits.d).
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
    """Where Linux shares cores between sessions first, niceness counts only within one."""
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # not every kernel shares by sessions
            SESSION.write_text(str(NICENESS))
