"""Camera frames that wait for the step chosen on them."""

from __future__ import annotations

from collections import OrderedDict

from opc_ros.episode import Frame


class FrameBuffer:
    """The newest frames by timestamp, limited in age and in bytes."""

    def __init__(self, *, max_age_ns: int, max_bytes: int) -> None:
        self._max_age_ns = max_age_ns
        self._max_bytes = max_bytes
        self._frames: OrderedDict[int, tuple[Frame, int]] = OrderedDict()  # timestamp -> frame, arrival time
        self._bytes = 0
        self._let_go_ns: int | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: Frame, mono_ns: int) -> bool:
        """Add a frame; returns False if there already is one with that timestamp, which is kept."""
        if frame.stamp_ns in self._frames:
            return False
        self._frames[frame.stamp_ns] = (frame, mono_ns)
        self._bytes += len(frame.data)
        while self._bytes > self._max_bytes and len(self._frames) > 1:
            self._let_go()
        while mono_ns - next(iter(self._frames.values()))[1] > self._max_age_ns:
            self._let_go()
        return True

    def find(self, stamp_ns: int) -> Frame | None:
        entry = self._frames.get(stamp_ns)
        return entry[0] if entry else None

    def explain_absence(self, stamp_ns: int) -> str:
        """Why there is no frame with this timestamp."""
        if self._let_go_ns is not None and stamp_ns <= self._let_go_ns:
            return "had left the buffer before its step came: raise frame_buffer_s or frame_buffer_mb"
        return "never came"

    def _let_go(self) -> None:
        stamp_ns, (frame, _) = self._frames.popitem(last=False)
        self._bytes -= len(frame.data)
        self._let_go_ns = stamp_ns
