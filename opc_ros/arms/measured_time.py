"""When a measurement was taken, by the monotonic clock of a process that may have received it late."""

from __future__ import annotations

from collections import deque

KEPT_S = 2.0  # after this, a clock that was stepped is trusted again


class MeasuredTime:
    """Takes the smallest recent gap between timestamp and arrival as the clocks' offset, and the rest as queueing.

    Without it, an arm seen through a full queue would be held where it had been, which is a motion backwards.
    """

    def __init__(self) -> None:
        # Only arrivals whose gap no later one has undercut are kept, so the first has the smallest.
        self._least: deque[tuple[float, float]] = deque()

    def tell(self, received_s: float, stamp_ns: int) -> float:
        """When it was measured (monotonic), if the fastest arrival did not wait; unstamped: when it arrived."""
        if not stamp_ns:
            return received_s
        apart_s = received_s - stamp_ns * 1e-9
        while self._least and self._least[-1][1] >= apart_s:
            self._least.pop()
        self._least.append((received_s, apart_s))
        while self._least[0][0] < received_s - KEPT_S:
            self._least.popleft()
        return received_s - (apart_s - self._least[0][1])
