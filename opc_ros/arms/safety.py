"""What keeps an arm from doing harm: a workspace box, joint limits, a stop switch and a watchdog."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.kinematics import ArmModel
from opc_ros.errors import ArmStopped

Position = tuple[float, float, float]
ROUNDING = 1e-9
SLACK_M = 1e-4  # an arm held at the edge of its workspace is measured a little beyond it


@dataclass(frozen=True, slots=True)
class WorkspaceBox:
    """Where the tool may be, in the base frame."""

    low_m: Position
    high_m: Position

    def __post_init__(self) -> None:
        for axis, low, high in zip("xyz", self.low_m, self.high_m, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(f"workspace along {axis} is from {low} to {high} m, expected from less to more")

    def clamp(self, position_m: Position) -> tuple[Position, tuple[str, ...]]:
        """The nearest position inside, and one line for each axis that had to give."""
        inside = [
            min(max(value, low), high) for value, low, high in zip(position_m, self.low_m, self.high_m, strict=True)
        ]
        lines = tuple(
            f"tool {axis} is {value:.4f} m, allowed from {low:.4f} to {high:.4f}"
            for axis, value, low, high in zip("xyz", position_m, self.low_m, self.high_m, strict=True)
            if not low - SLACK_M <= value <= high + SLACK_M
        )
        return (inside[0], inside[1], inside[2]), lines


class JointLimits:
    """How far and how fast the joints may turn: the datasheet's limits, and as much less as was asked for."""

    def __init__(
        self,
        model: ArmModel,
        *,
        speed_fraction: float = 1.0,
        margin_deg: float = 0.0,
        acceleration_rad_s2: float = math.inf,
    ) -> None:
        if not 0.0 < speed_fraction <= 1.0:
            raise ValueError(f"speed fraction is {speed_fraction}, expected above 0 and at most 1")
        if not 0.0 <= margin_deg < min(model.largest_position_deg):
            raise ValueError(f"joint margin is {margin_deg} deg, expected from 0 to below the smallest limit")
        if not acceleration_rad_s2 > 0.0:
            raise ValueError(f"joint acceleration is {acceleration_rad_s2} rad/s^2, expected above 0")
        self.position_rad = model.largest_position_rad - math.radians(margin_deg)  # (7,), either way
        self.velocity_rad_s = model.largest_velocity_rad_s * speed_fraction  # (7,)
        self.acceleration_rad_s2 = acceleration_rad_s2

    def position_violations(self, joints_rad: np.ndarray) -> tuple[str, ...]:
        """One line for each joint beyond its limit."""
        return tuple(
            f"joint {joint + 1} is {math.degrees(value):+.2f} deg, allowed +-{math.degrees(limit):.2f}"
            for joint, (value, limit) in enumerate(zip(joints_rad, self.position_rad, strict=True))
            if not abs(value) <= limit + ROUNDING
        )

    def clamp_positions(self, joints_rad: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """The nearest allowed joint angles (7,), and one line for each joint that had to give."""
        return np.clip(joints_rad, -self.position_rad, self.position_rad), self.position_violations(joints_rad)

    def clamp_step(self, start_rad: np.ndarray, end_rad: np.ndarray, seconds: float) -> tuple[np.ndarray, str]:
        """The furthest allowed joint angles (7,) on the straight way, and the line to report, empty if all the way."""
        step = end_rad - start_rad
        allowed = self.velocity_rad_s * seconds
        excess = np.abs(step) / allowed
        joint = int(np.argmax(excess))
        if excess[joint] <= 1.0 + ROUNDING:
            return end_rad, ""
        line = (
            f"joint {joint + 1} would turn at {math.degrees(abs(step[joint]) / seconds):.1f} deg/s, "
            f"allowed {math.degrees(self.velocity_rad_s[joint]):.1f}"
        )
        return start_rad + step / excess[joint], line


class StopSwitch:
    """A stop that stays until it is lifted.

    Stopping always counts, whatever the clocks say; lifting counts only if it was said after the stop.
    """

    def __init__(self, arm: str) -> None:
        self._arm = arm
        self._reason: str | None = None
        self._pressed_ns = 0

    @property
    def reason(self) -> str | None:
        """Why the arm is stopped; None while it is not."""
        return self._reason

    def press(self, reason: str, stamp_ns: int) -> bool:
        """Stop, and tell whether that is news."""
        self._pressed_ns = max(stamp_ns, self._pressed_ns)
        is_news = self._reason is None
        if is_news:
            self._reason = reason or "no reason given"
        return is_news

    def lift(self, stamp_ns: int) -> bool:
        """Allow motion again, and tell whether that is news."""
        is_news = self._reason is not None and stamp_ns >= self._pressed_ns
        if is_news:
            self._reason = None
        return is_news

    def refuse_if_pressed(self) -> None:
        if self._reason is not None:
            raise ArmStopped(f"arm {self._arm}: stopped ({self._reason}); release it first")


class Watchdog:
    """Notices when something that should keep coming has ceased. It wakes with the first sign of life."""

    def __init__(self, what: str, timeout_s: float, now: Callable[[], float]) -> None:
        if not timeout_s > 0.0:
            raise ValueError(f"watchdog over {what}: timeout is {timeout_s} s, expected above 0")
        self._what = what
        self._timeout_s = timeout_s
        self._now = now
        self._fed_s: float | None = None
        self._has_barked = False

    @property
    def is_awake(self) -> bool:
        return self._fed_s is not None

    @property
    def is_expired(self) -> bool:
        return self._fed_s is not None and self._now() - self._fed_s > self._timeout_s

    def feed(self) -> bool:
        """A sign of life; tells whether it ends a silence that was reported."""
        has_barked, self._has_barked = self._has_barked, False
        self._fed_s = self._now()
        return has_barked

    def rest(self) -> None:
        """Sleep again until the next sign of life: whoever was watched has said goodbye."""
        self._fed_s = None
        self._has_barked = False

    def bark(self) -> str:
        """One line when a silence has become too long, once for each silence; otherwise empty."""
        if self._has_barked or not self.is_expired:
            return ""
        self._has_barked = True
        return self.describe()

    def describe(self) -> str:
        """How long nothing has come."""
        if self._fed_s is None:
            return f"{self._what}: none yet"
        return f"{self._what}: none for {self._now() - self._fed_s:.2f} s, allowed {self._timeout_s:.2f}"
