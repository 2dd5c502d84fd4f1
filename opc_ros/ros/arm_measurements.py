"""The latest measurements of an arm: joints, gripper opening and images, and how far they have moved."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from opc_ros.arms.measured_time import MeasuredTime
from opc_ros.episode import Frame
from opc_ros.ros.joint_messages import JointReading

T = TypeVar("T")

HISTORY = 512  # joint readings kept: some seconds, to know where the arm was when an image was taken
FEWEST = 3  # measurements needed to tell that something is still


@dataclass(frozen=True, slots=True)
class Received:
    """An image and the monotonic time of its arrival."""

    at_s: float
    frame: Frame


class ArmMeasurements:
    """Written by the subscription thread, read by the commanding thread; `changed` wakes waiting threads."""

    def __init__(self, *, use_sim_time: bool = False) -> None:
        """With `use_sim_time`, timestamps do not show how long a message waited: simulated time has its own pace."""
        self._times = None if use_sim_time else MeasuredTime()
        self.changed = threading.Condition()
        self._readings: deque[tuple[float, JointReading]] = deque(maxlen=HISTORY)
        self._apertures: deque[tuple[float, float]] = deque(maxlen=HISTORY)
        self._newest: Received | None = None

    @property
    def has_joints(self) -> bool:
        return bool(self._readings)

    @property
    def has_aperture(self) -> bool:
        return bool(self._apertures)

    @property
    def has_frame(self) -> bool:
        return self._newest is not None

    def keep_joints(self, reading: JointReading) -> None:
        now_s = time.monotonic()
        self._readings.append((self._times.tell(now_s, reading.stamp_ns) if self._times else now_s, reading))

    def keep_aperture(self, aperture_m: float) -> None:
        self._apertures.append((time.monotonic(), aperture_m))

    def keep_frame(self, frame: Frame) -> None:
        self._newest = Received(time.monotonic(), frame)

    def reading(self) -> JointReading:
        """The latest joint measurement."""
        return self._readings[-1][1]

    def newest(self) -> tuple[float, JointReading] | None:
        """The latest joint measurement and the monotonic time of its arrival."""
        return self._readings[-1] if self._readings else None

    def reading_at(self, stamp_ns: int) -> JointReading:
        """The joint measurement closest to a time."""
        with self.changed:
            return min((reading for _, reading in self._readings), key=lambda r: abs(r.stamp_ns - stamp_ns))

    def joint_travel_rad(self, seconds: float, since_s: float) -> float:
        """Largest movement of any joint within the last seconds; infinite without enough measurements.

        Only measurements since `since_s` (monotonic) count, such as the time at which a motion was sent.
        """
        recent = self._last_positions(seconds, since_s)
        return float(max(abs(positions - recent[-1]).max() for positions in recent)) if recent else float("inf")

    def joint_drift_rad(self, seconds: float, since_s: float) -> float:
        """Largest drift of any joint: the difference of its mean between the two halves of the last seconds."""
        recent = self._last_positions(seconds, since_s)
        if not recent:
            return float("inf")
        older, newer = recent[: len(recent) // 2], recent[len(recent) // 2 :]
        return float(abs(np.mean(newer, axis=0) - np.mean(older, axis=0)).max())

    def aperture_m(self) -> float:
        """The latest measured gripper opening."""
        return self._apertures[-1][1]

    def aperture_travel_m(self, seconds: float, since_s: float) -> float:
        """How far the opening has changed within the last seconds; infinite without enough measurements."""
        with self.changed:
            recent = [aperture for _, aperture in _last(self._apertures, seconds, since_s)]
        return max(recent) - min(recent) if recent else float("inf")

    def frame_after(self, stamp_ns: int, longest_s: float) -> Frame | None:
        """The newest image, if it has a later timestamp and did not arrive too long ago."""
        newest = self._newest
        if newest is None:
            return None
        is_fresh = time.monotonic() - newest.at_s <= longest_s
        return newest.frame if is_fresh and newest.frame.stamp_ns > stamp_ns else None

    def _last_positions(self, seconds: float, since_s: float) -> list[np.ndarray]:
        with self.changed:
            return [reading.positions_rad for _, reading in _last(self._readings, seconds, since_s)]


def _last(measured: Sequence[tuple[float, T]], seconds: float, since_s: float) -> list[tuple[float, T]]:
    """Measurements of the last seconds, or at least the last few, if a busy driver publishes rarely.

    Empty if there are too few since the given time.
    """
    from_s = time.monotonic() - seconds
    since = [each for each in measured if each[0] >= since_s]
    if len(since) < FEWEST or from_s < since_s:
        return []
    recent = [each for each in since if each[0] >= from_s]
    return recent if len(recent) >= FEWEST else since[-FEWEST:]
