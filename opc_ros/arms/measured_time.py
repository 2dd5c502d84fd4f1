"""When a measurement was taken, by the steady clock of a process that may have been too busy to take it in at once."""

from __future__ import annotations

from collections import deque

KEPT_S = 2.0  # a clock that is put right counts anew after this


class MeasuredTime:
    """Of what lies between stamp and arrival, the least of late is the clocks' difference, and the rest was waiting.

    Without it, an arm seen through a queue would be held where it was, which is a motion back.
    """

    def __init__(self) -> None:
        # Arrivals whose difference no later one has undercut, so the first is the least.
        self._least: deque[tuple[float, float]] = deque()

    def tell(self, received_s: float, stamp_ns: int) -> float:
        """When it was measured (monotonic), if nothing is faster than what came fastest; unstamped: when it came."""
        if not stamp_ns:
            return received_s
        apart_s = received_s - stamp_ns * 1e-9
        while self._least and self._least[-1][1] >= apart_s:
            self._least.pop()
        self._least.append((received_s, apart_s))
        while self._least[0][0] < received_s - KEPT_S:
            self._least.popleft()
        return received_s - (apart_s - self._least[0][1])
