"""How long work takes that others on the machine only ever make slower."""

from __future__ import annotations

import time
from collections.abc import Callable


def fastest_s(work: Callable[[], object], rounds: int, clock: Callable[[], float] = time.process_time) -> float:
    """The shortest of several runs in seconds: of this process' own work, or by another clock."""
    best = float("inf")
    for _ in range(rounds):
        began_s = clock()
        work()
        best = min(best, clock() - began_s)
    return best
