"""A clock that only tests move."""

from __future__ import annotations

SECOND = 1_000_000_000
START_NS = 1_700_000_000 * SECOND


class Clock:
    """Time that moves when told to."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)
