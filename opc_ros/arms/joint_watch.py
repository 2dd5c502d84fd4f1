"""Decides which measured joint angles are plausible, and whether the arm is moving."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from opc_ros.arms.hold import reckon
from opc_ros.arms.limits import JointLimits

SLACK_RAD = math.radians(1.0)  # beyond the limits: what an arm pressed against its stop may show
JUMP_RAD = 0.05  # beyond what the joints' speed explains: jitter of timestamps and network
JUMP_FACTOR = 2.0
WINDOW_S = 0.2  # over which motion is detected from positions
AGREEING = 5  # consecutive readings that must agree before a jump is believed: the arm was put elsewhere
AGREEING_RAD = 0.02


class JointWatch:
    """Takes joint angles as they arrive and keeps the most recent plausible ones.

    A reading is plausible if it is finite, within the joints' limits, recent by its own timestamp, and no further from
    the previous one than the joints can have turned.
    """

    def __init__(self, limits: JointLimits, *, rest_rad_s: float, oldest_s: float, now: Callable[[], float]) -> None:
        self._limits = limits
        self._rest_rad_s = rest_rad_s
        self._oldest_s = oldest_s
        self._now = now
        self._plausible: deque[tuple[float, np.ndarray]] = deque(maxlen=256)
        self._elsewhere: deque[np.ndarray] = deque(maxlen=AGREEING)
        self._velocities_rad_s: np.ndarray | None = None
        self.doubt = ""  # why the last reading was not believed; empty if it was

    def see(self, positions_rad: np.ndarray, velocities_rad_s: np.ndarray | None, age_s: float) -> bool:
        """Take a reading of this age; return whether it is plausible."""
        self.doubt = self._doubt(positions_rad, age_s)
        if self.doubt.startswith("jumped") and self._is_settled_elsewhere(positions_rad):
            self._plausible.clear()
            self.doubt = ""
        if self.doubt:
            return False
        self._elsewhere.clear()
        self._plausible.append((self._now(), positions_rad))
        self._velocities_rad_s = velocities_rad_s
        return True

    @property
    def is_moving(self) -> bool:
        """Judged by positions, and also by the driver's velocities if it publishes any."""
        velocities = self._velocities_rad_s
        if velocities is not None and np.isfinite(velocities).all() and np.abs(velocities).max() > self._rest_rad_s:
            return True
        if len(self._plausible) < 2:
            return False
        newest_s, newest = self._plausible[-1]
        recent = [(at_s, positions) for at_s, positions in self._plausible if newest_s - at_s <= WINDOW_S]
        if len(recent) < 2:
            recent = list(self._plausible)[-2:]
        travel = float(np.abs(newest - recent[0][1]).max())
        return travel > self._rest_rad_s * max(newest_s - recent[0][0], WINDOW_S / 2)

    def holdable(self, within_s: float) -> np.ndarray | None:
        """Where to hold the arm (J,), from the last plausible reading; None if that came more than `within_s` ago.

        A moving arm is held where it has got to since: holding it where it was would be a motion backwards.
        """
        if not self._plausible:
            return None
        seen_s, positions = self._plausible[-1]
        if (age_s := self._now() - seen_s) > within_s:
            return None
        here = reckon(positions, self._velocities() if self.is_moving else None, age_s, self._limits)
        return np.asarray(np.clip(here, self._limits.lower_rad, self._limits.upper_rad))

    def _velocities(self) -> np.ndarray | None:
        """The driver's (J,), or else from the last two positions."""
        if self._velocities_rad_s is not None:
            return self._velocities_rad_s
        (before_s, before), (newest_s, newest) = self._plausible[-2], self._plausible[-1]
        return np.asarray((newest - before) / (newest_s - before_s)) if newest_s > before_s else None

    def _doubt(self, positions_rad: np.ndarray, age_s: float) -> str:
        if not np.isfinite(positions_rad).all():
            return "no finite numbers"
        beyond = np.maximum(self._limits.lower_rad - positions_rad, positions_rad - self._limits.upper_rad)
        if beyond.max() > SLACK_RAD:
            joint = int(beyond.argmax())
            return f"joint {joint + 1} at {math.degrees(positions_rad[joint]):+.1f} deg, beyond its limit"
        if abs(age_s) > self._oldest_s:
            return f"stamped {age_s:.2f} s ago, allowed {self._oldest_s:.2f}"
        if self._plausible:
            at_s, last = self._plausible[-1]
            allowed = JUMP_FACTOR * self._limits.velocity_rad_s * (self._now() - at_s) + JUMP_RAD
            excess = np.abs(positions_rad - last) - allowed
            if excess.max() > 0.0:
                joint = int(excess.argmax())
                return f"jumped: joint {joint + 1} by {math.degrees(positions_rad[joint] - last[joint]):+.1f} deg"
        return ""

    def _is_settled_elsewhere(self, positions_rad: np.ndarray) -> bool:
        if self._elsewhere and np.abs(positions_rad - self._elsewhere[-1]).max() > AGREEING_RAD:
            self._elsewhere.clear()
        self._elsewhere.append(positions_rad)
        return len(self._elsewhere) == AGREEING
