"""Smooth joint trajectories that keep an arm's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.kinematics import JOINTS, Kinematics, ToolPose
from opc_ros.arms.safety import JointLimits
from opc_ros.errors import OutOfReach

SAMPLES = 25
SHORTEST_S = 0.2
# The course of a move that starts and ends at rest with the least jerk, from 0 to 1.
TICKS = np.linspace(0.0, 1.0, SAMPLES)
COURSE = TICKS**3 * (10.0 - 15.0 * TICKS + 6.0 * TICKS**2)
PEAK_SPEED = 1.875  # of that course, where its mean is 1
HEADROOM = 1.005  # a cubic piece may bow a little above the speed at its ends and middle


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Joint angles over time, from rest to rest unless its velocities say otherwise."""

    times_s: np.ndarray  # (N,), rising
    positions_rad: np.ndarray  # (N, 7)
    velocities_rad_s: np.ndarray  # (N, 7)

    def __post_init__(self) -> None:
        count = len(self.times_s)
        for name, array in (("positions", self.positions_rad), ("velocities", self.velocities_rad_s)):
            if array.shape != (count, JOINTS):
                raise OutOfReach(f"trajectory: {name} have shape {array.shape}, expected ({count}, {JOINTS})")
            if not np.isfinite(array).all():
                raise OutOfReach(f"trajectory: {name} are not all finite")
        if not (count and np.isfinite(self.times_s).all() and self.times_s[0] >= 0.0):
            raise OutOfReach("trajectory: expected at least one point, none before the start")
        if not (np.diff(self.times_s) > 0.0).all():
            raise OutOfReach("trajectory: times do not rise from point to point")

    @property
    def duration_s(self) -> float:
        return float(self.times_s[-1])

    @property
    def goal_rad(self) -> np.ndarray:  # (7,)
        return self.positions_rad[-1]

    def sample(self, seconds: float) -> np.ndarray:
        """Joint angles (7,) at a time, by cubic interpolation; before the first and after the last point, they."""
        times = self.times_s
        if seconds <= times[0]:
            return self.positions_rad[0]
        if seconds >= times[-1]:
            return self.positions_rad[-1]
        after = int(np.searchsorted(times, seconds, side="right"))
        span = times[after] - times[after - 1]
        u = (seconds - times[after - 1]) / span
        start, end = self.positions_rad[after - 1], self.positions_rad[after]
        leave, arrive = self.velocities_rad_s[after - 1] * span, self.velocities_rad_s[after] * span
        chord = end - start
        return start + u * (leave + u * (3 * chord - 2 * leave - arrive + u * (leave + arrive - 2 * chord)))


def plan_line(
    kinematics: Kinematics, limits: JointLimits, start_rad: np.ndarray, goal: ToolPose, *, tool_speed_m_s: float
) -> Trajectory:
    """Lead the tool from these joint angles to a pose on a straight line, within speed and acceleration."""
    start = kinematics.locate_tool(start_rad)
    path = np.stack([kinematics.solve(_between(start, goal, share)) for share in COURSE])
    # The arm need not stand exactly where the inverse puts it; that difference fades out on the way.
    path += np.outer(1.0 - COURSE, start_rad - path[0])
    length = math.dist((start.x_m, start.y_m, start.z_m), (goal.x_m, goal.y_m, goal.z_m))
    return _time(path, limits, shortest_s=PEAK_SPEED * length / tool_speed_m_s)


def plan_joints(limits: JointLimits, start_rad: np.ndarray, goal_rad: np.ndarray) -> Trajectory:
    """Turn all joints at once from one set of angles to another, within speed and acceleration."""
    return _time(start_rad + np.outer(COURSE, goal_rad - start_rad), limits, shortest_s=0.0)


def plan_hold(joints_rad: np.ndarray, *, seconds: float = 0.02) -> Trajectory:
    """Be at these joint angles at once, and stay."""
    return Trajectory(np.array([seconds]), joints_rad[np.newaxis].copy(), np.zeros((1, JOINTS)))


def find_reachable(
    kinematics: Kinematics, limits: JointLimits, start_rad: np.ndarray, goal: ToolPose
) -> tuple[ToolPose, float, tuple[str, ...]]:
    """The furthest pose on the way that the joints allow, its share of the way, and why no further."""
    start = kinematics.locate_tool(start_rad)
    reached, share_reached = start, 0.0
    for share in TICKS[1:]:
        pose = _between(start, goal, float(share))
        try:
            lines = limits.position_violations(kinematics.solve(pose))
        except OutOfReach as error:
            lines = (str(error),)
        if lines:
            return reached, share_reached, tuple(f"{line}; went {share_reached:.0%} of the way" for line in lines)
        reached, share_reached = pose, float(share)
    return goal, 1.0, ()


def _between(start: ToolPose, goal: ToolPose, share: float) -> ToolPose:
    """A pose on the straight way; a start that is tilted rights itself at once."""
    turn = math.remainder(goal.yaw_rad - start.yaw_rad, math.tau)
    return ToolPose(
        x_m=start.x_m + share * (goal.x_m - start.x_m),
        y_m=start.y_m + share * (goal.y_m - start.y_m),
        z_m=start.z_m + share * (goal.z_m - start.z_m),
        yaw_rad=start.yaw_rad + share * turn,
    )


def _time(path: np.ndarray, limits: JointLimits, *, shortest_s: float) -> Trajectory:
    """Give a path (N, 7), walked evenly in time, the shortest duration that its limits allow."""
    speed = np.gradient(path, TICKS, axis=0)  # for a duration of one second
    speed[0] = speed[-1] = 0.0
    between = 1.5 * np.diff(path, axis=0) / TICKS[1] - 0.25 * (speed[1:] + speed[:-1])
    fastest = np.maximum(np.abs(speed).max(axis=0), np.abs(between).max(axis=0))
    sharpest = np.abs(np.diff(speed, axis=0)).max() / TICKS[1]
    duration = max(
        SHORTEST_S,
        shortest_s,
        HEADROOM * float((fastest / limits.velocity_rad_s).max()),
        math.sqrt(sharpest / limits.acceleration_rad_s2),
    )
    return Trajectory(TICKS * duration, path, speed / duration)
