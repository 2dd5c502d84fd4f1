"""Limit the lines per minute that outsiders can cause, so that they cannot fill a disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MINUTE_NS = 60_000_000_000
LONGEST = 1000  # characters kept of a text from outside


class LineRate:
    """Counts the lines that were written, and those that were suppressed."""

    def __init__(self, most_a_minute: int, now: Callable[[], int]) -> None:
        self._most = most_a_minute
        self._now = now
        self._written_ns: deque[int] = deque()
        self._unwritten = 0

    def allows(self) -> bool:
        """Whether one more line may be written now; if so, it counts as written."""
        now_ns = self._now()
        while self._written_ns and not 0 <= now_ns - self._written_ns[0] < MINUTE_NS:
            self._written_ns.popleft()
        if len(self._written_ns) >= self._most:
            self._unwritten += 1
            return False
        self._written_ns.append(now_ns)
        return True

    def take_unwritten(self) -> int:
        """How many lines were suppressed since the last call."""
        count, self._unwritten = self._unwritten, 0
        return count
