"""How far this machine's clock differs from the lab's: permits, leases and days of episodes depend on both."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from opc_ros.errors import OpcError, TransferError
from opc_ros.transfer.channel import Asking, ask_json

LOOK_S = 10.0
TRIES = 3


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The lab's clock minus this machine's, and the possible error: half of the round-trip time."""

    apart_s: float
    doubt_s: float


def read_lab_clock(channel: Asking, now: Callable[[], int] = time.time_ns) -> ClockReading:
    """The most accurate of a few readings."""
    readings = []
    for _ in range(TRIES):
        began_ns, began_s = now(), time.monotonic()
        lab_ns = ask_json(channel, "GET", "/clock").get("now_ns")
        way_s = time.monotonic() - began_s
        if type(lab_ns) is not int:
            raise TransferError("/clock: the depot's answer cannot be read")
        readings.append(ClockReading((lab_ns - began_ns) / 1e9 - way_s / 2, way_s / 2))
    return min(readings, key=lambda reading: reading.doubt_s)


def why_apart(reading: ClockReading | None, allowed_s: float) -> str | None:
    """Why nothing may begin with clocks like these, or nothing if it may."""
    if reading is None:
        return "the lab's clock has not been read yet: its depot does not answer"
    if abs(reading.apart_s) - reading.doubt_s <= allowed_s:
        return None
    return (
        f"this machine's clock is {abs(reading.apart_s):.1f} s {'behind' if reading.apart_s > 0 else 'ahead of'} the "
        f"lab's, allowed {allowed_s:g}: let both follow one time server, with chrony for instance"
    )


class LabClock:
    """Reads the lab's clock regularly in a thread; if nobody answers, the last reading counts."""

    def __init__(self, channel: Asking, *, look_s: float = LOOK_S, now: Callable[[], int] = time.time_ns) -> None:
        self._channel, self._look_s, self._now = channel, look_s, now
        self.reading: ClockReading | None = None
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="lab clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(timeout=1.0)

    def _look(self) -> None:
        while not self._is_closing.is_set():
            with contextlib.suppress(OpcError):
                self.reading = read_lab_clock(self._channel, self._now)
            self._is_closing.wait(self._look_s if self.reading is not None else 0.5)
