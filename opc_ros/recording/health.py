"""Watchers for problems with cameras, clocks, disks and actions while episodes are recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from opc_ros.episode import Frame
from opc_ros.grasp import ActionBounds, GraspAction

WATCHES = (
    "missing frames",
    "late frames",
    "frame rate",
    "frozen camera",
    "clock",
    "disk",
    "action bounds",
    "steps",
    "queue",
    "labels",
)

# An action that moves less than this may leave the image unchanged.
_MOVED_M = 0.01


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """A problem with a stream; one that `spoils` the episode sends it to quarantine."""

    watch: str  # one of WATCHES
    text: str
    spoils: bool = False


@dataclass(slots=True)
class HealthLog:
    """The findings of one episode, with those of the same kind joined into one line."""

    _first: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, finding: HealthFinding) -> None:
        self._first.setdefault(finding.watch, finding.text)
        self._counts[finding.watch] = self._counts.get(finding.watch, 0) + 1

    def lines(self) -> tuple[str, ...]:
        return tuple(
            f"{watch}: {text}" + (f" (and {self._counts[watch] - 1} more)" if self._counts[watch] > 1 else "")
            for watch, text in self._first.items()
        )


class FrameWatch:
    """Detects late and missing frames, and too low a frame rate; fed with timestamps while an episode runs."""

    RATE_OVER = 20  # intervals
    RATE_FROM = 5

    def __init__(self, *, min_rate_hz: float, max_gap_s: float, max_latency_s: float) -> None:
        self._min_rate_hz = min_rate_hz
        self._max_gap_s = max_gap_s
        self._max_latency_s = max_latency_s
        self._arrivals_ns: deque[int] = deque(maxlen=self.RATE_OVER + 1)
        self._is_gap_told = False
        self._is_rate_told = False

    @property
    def rate_hz(self) -> float:
        """Frame rate from the latest arrivals."""
        if len(self._arrivals_ns) < 2:
            return 0.0
        span_ns = self._arrivals_ns[-1] - self._arrivals_ns[0]
        return (len(self._arrivals_ns) - 1) * 1e9 / span_ns if span_ns > 0 else 0.0

    def restart(self, mono_ns: int) -> None:
        """Begin an episode; a pause before it does not count as a gap."""
        self._arrivals_ns.clear()
        self._arrivals_ns.append(mono_ns)
        self._is_gap_told = self._is_rate_told = False

    def see(self, stamp_ns: int, arrived_ns: int, mono_ns: int) -> list[HealthFinding]:
        """Take a frame; `arrived_ns` is by the same clock as timestamps."""
        findings = self.check(mono_ns)
        self._is_gap_told = False
        self._arrivals_ns.append(mono_ns)
        latency_s = (arrived_ns - stamp_ns) / 1e9
        if latency_s > self._max_latency_s:
            findings.append(
                HealthFinding(
                    "late frames", f"frame {latency_s:.2f} s old on arrival, allowed {self._max_latency_s:.2f}"
                )
            )
        elif latency_s < -self._max_latency_s:
            findings.append(
                HealthFinding("clock", f"frame stamped {-latency_s:.2f} s in the future: set the camera's clock")
            )
        is_low = len(self._arrivals_ns) > self.RATE_FROM and self.rate_hz < self._min_rate_hz
        if is_low and not self._is_rate_told:
            findings.append(
                HealthFinding("frame rate", f"{self.rate_hz:.1f} frames per second, expected {self._min_rate_hz:.1f}")
            )
        self._is_rate_told = is_low
        return findings

    def check(self, mono_ns: int) -> list[HealthFinding]:
        """Called between frames: whether the camera has fallen silent."""
        silent_s = (mono_ns - self._arrivals_ns[-1]) / 1e9 if self._arrivals_ns else 0.0
        if silent_s <= self._max_gap_s or self._is_gap_told:
            return []
        self._is_gap_told = True
        return [HealthFinding("missing frames", f"no frame for {silent_s:.1f} s, allowed {self._max_gap_s:.1f}")]


class FrozenWatch:
    """Detects a camera that repeats the same image although the arm moved; fed with the frames of steps, in order."""

    def __init__(self, *, frozen_steps: int) -> None:
        self._frozen_steps = frozen_steps
        self._before: Frame | None = None
        self._has_moved = False
        self._run = 0

    def see(self, frame: Frame, sent: GraspAction) -> HealthFinding | None:
        """Take a step's frame; `sent` is what the arm was sent on it, whose effect shows in the next frame."""
        if self._before is not None and frame.data != self._before.data:
            self._run = 0
        elif self._before is not None and self._has_moved:
            self._run += 1
        self._before = frame
        self._has_moved = max(map(abs, sent.displacement_m)) >= _MOVED_M
        if not self._frozen_steps or self._run != self._frozen_steps:
            return None
        return HealthFinding("frozen camera", f"{self._run + 1} identical frames while the arm moved", spoils=True)


class ClockWatch:
    """Detects jumps of the computer's clock by comparing it with a monotonic clock."""

    def __init__(self, *, max_jump_s: float) -> None:
        self._max_jump_s = max_jump_s
        self._offset_ns: int | None = None

    def see(self, wall_ns: int, mono_ns: int) -> HealthFinding | None:
        before, self._offset_ns = self._offset_ns, wall_ns - mono_ns
        jump_s = 0.0 if before is None else (self._offset_ns - before) / 1e9
        if abs(jump_s) <= self._max_jump_s:
            return None
        return HealthFinding("clock", f"the computer's clock jumped by {jump_s:+.2f} s, allowed {self._max_jump_s:.2f}")


class DiskWatch:
    """Watches the space left for episodes."""

    def __init__(self, free_bytes: Callable[[], int], *, min_free_bytes: int) -> None:
        self._read_free_bytes = free_bytes
        self._min_free_bytes = min_free_bytes
        self.free_bytes = 0

    def check(self) -> HealthFinding | None:
        try:
            self.free_bytes = self._read_free_bytes()
        except OSError as error:
            self.free_bytes = 0
            return HealthFinding("disk", f"cannot be read: {error.strerror or error}")
        if self.free_bytes >= self._min_free_bytes:
            return None
        return HealthFinding(
            "disk", f"{self.free_bytes / 1e6:.0f} MB free, expected {self._min_free_bytes / 1e6:.0f}: make room"
        )


def check_bounds(action: GraspAction, bounds: ActionBounds, index: int) -> HealthFinding | None:
    violations = bounds.violations(action)
    return HealthFinding("action bounds", f"step {index}: {', '.join(violations)}") if violations else None
