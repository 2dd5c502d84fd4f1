"""Messages that arrive beside the frames wait here for the next step, so that they never displace a step."""

from __future__ import annotations

from opc_ros.episode import WireMessage

_MOST = 20_000  # waiting at most; a minute of joint states at 300 Hz


class WireBuffer:
    """Keeps all messages of an episode, and before one begins, the newest message of each type."""

    def __init__(self, *, max_rate_hz: float) -> None:
        """Keep at most this many messages of each type per second, by timestamp; 0: all."""
        self._apart_ns = int(1e9 / max_rate_hz) if max_rate_hz else 0
        self._newest: dict[str, WireMessage] = {}
        self._last_kept_ns: dict[str, int] = {}
        self._waiting: list[WireMessage] = []

    def begin(self) -> None:
        """Begin an episode with the newest message of each type."""
        self._waiting = list(self._newest.values())
        self._last_kept_ns = {message.type: message.stamp_ns for message in self._waiting}

    def add(self, message: WireMessage, *, is_recording: bool) -> None:
        self._newest[message.type] = message
        if not is_recording or len(self._waiting) >= _MOST:
            return
        since_ns = message.stamp_ns - self._last_kept_ns.get(message.type, -(2**62))
        if 0 <= since_ns < self._apart_ns * 0.9:  # timestamps jitter; a stream just at the limit is kept completely
            return
        self._last_kept_ns[message.type] = message.stamp_ns
        self._waiting.append(message)

    def take(self) -> list[WireMessage]:
        waiting, self._waiting = self._waiting, []
        return waiting
