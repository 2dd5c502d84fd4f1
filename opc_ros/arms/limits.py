"""How far and how fast an arm may go: a box for its tool, and limits for its joints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.model import ArmModel

Position = tuple[float, float, float]
ROUNDING = 1e-9
SLACK_M = 1e-4  # an arm at the edge of its workspace may be measured slightly outside it


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
        """The nearest position inside, and one line for each axis that was clamped."""
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
    """How far and how fast the joints may turn: the model's limits, less the margins that were asked for."""

    def __init__(
        self,
        model: ArmModel,
        *,
        speed_fraction: float = 1.0,
        margin_deg: float = 0.0,
        acceleration_rad_s2: float = math.inf,
        jerk_rad_s3: float = math.inf,
    ) -> None:
        if not 0.0 < speed_fraction <= 1.0:
            raise ValueError(f"speed fraction is {speed_fraction}, expected above 0 and at most 1")
        if not 0.0 <= margin_deg < math.degrees((model.upper_rad - model.lower_rad).min() / 2):
            raise ValueError(f"joint margin is {margin_deg} deg, expected from 0 to below half the narrowest range")
        for name, value in (("acceleration", acceleration_rad_s2), ("jerk", jerk_rad_s3)):
            if not value > 0.0:
                raise ValueError(f"joint {name} is {value}, expected above 0")
        self.lower_rad = model.lower_rad + math.radians(margin_deg)  # (J,)
        self.upper_rad = model.upper_rad - math.radians(margin_deg)  # (J,)
        self.velocity_rad_s = model.velocity_rad_s * speed_fraction  # (J,)
        self.acceleration_rad_s2 = acceleration_rad_s2
        self.jerk_rad_s3 = jerk_rad_s3

    def position_violations(self, joints_rad: np.ndarray) -> tuple[str, ...]:
        """One line for each joint beyond its limit."""
        return tuple(
            f"joint {joint + 1} is {math.degrees(value):+.2f} deg, "
            f"allowed from {math.degrees(low):+.2f} to {math.degrees(high):+.2f}"
            for joint, (value, low, high) in enumerate(zip(joints_rad, self.lower_rad, self.upper_rad, strict=True))
            if not low - ROUNDING <= value <= high + ROUNDING
        )

    def clamp_step(self, start_rad: np.ndarray, end_rad: np.ndarray, seconds: float) -> tuple[np.ndarray, str]:
        """The furthest joint angles (J,) towards the end that the speeds allow, and a line if they fall short of it."""
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
