"""Smooth joint trajectories that keep an arm's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.kinematics import Kinematics, ToolPose
from opc_ros.arms.limits import JointLimits
from opc_ros.errors import OutOfReach

SAMPLES = 25
PROBES = 13  # poses along a line that are solved before it is timed
TICKS = np.linspace(0.0, 1.0, SAMPLES)
SHORTEST_S = 0.2
TINY = 1e-9
LARGEST = 1e6  # used where no limit is given


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Joint angles over time, from rest to rest unless its velocities say otherwise."""

    times_s: np.ndarray  # (N,), rising
    positions_rad: np.ndarray  # (N, J)
    velocities_rad_s: np.ndarray  # (N, J)

    def __post_init__(self) -> None:
        count, joints = len(self.times_s), self.positions_rad.shape[-1]
        for name, array in (("positions", self.positions_rad), ("velocities", self.velocities_rad_s)):
            if array.shape != (count, joints):
                raise OutOfReach(f"trajectory: {name} have shape {array.shape}, expected ({count}, {joints})")
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
    def goal_rad(self) -> np.ndarray:  # (J,)
        return np.asarray(self.positions_rad[-1])

    def fastest_rad_s(self) -> np.ndarray:  # (J,)
        """Each joint's highest speed, at the points and on the cubic pieces that a controller fits between them."""
        inside = self._peaks_rad_s() if len(self.times_s) > 1 else np.zeros_like(self.velocities_rad_s)
        return np.asarray(np.abs(np.concatenate([self.velocities_rad_s, inside])).max(axis=0))

    def furthest_rad(self) -> np.ndarray:  # (M, J)
        """Joint angles at the points, and wherever a joint reverses on the cubic pieces between them."""
        if len(self.times_s) == 1:
            return self.positions_rad
        leave, lift, curve = _pieces(self.times_s, self.positions_rad, self.velocities_rad_s)
        spans = np.diff(self.times_s)[:, np.newaxis]
        root = np.sqrt(np.maximum(lift**2 - 3 * curve * leave, 0.0))
        found = [self.positions_rad]
        # Both roots of the velocity, each in two forms: one is stable where the piece is nearly straight, the other
        # where it starts at rest. Values that are not roots do no harm: they are points of the path as well.
        for up, down in (
            (-leave, lift - root),
            (-leave, lift + root),
            (-lift - root, 3 * curve),
            (root - lift, 3 * curve),
        ):
            is_safe = np.abs(down) > TINY
            u = np.clip(np.where(is_safe, up / np.where(is_safe, down, 1.0), 0.0), 0.0, 1.0)
            found.append(self.positions_rad[:-1] + spans * u * (leave + u * (lift + u * curve)))
        return np.concatenate(found)

    def _peaks_rad_s(self) -> np.ndarray:  # (N - 1, J)
        """The highest speed inside each piece; 0 where it is at one of its ends."""
        leave, lift, curve = _pieces(self.times_s, self.positions_rad, self.velocities_rad_s)
        is_inside = (np.abs(curve) > TINY) & (lift * curve < 0.0) & (np.abs(lift) < 3 * np.abs(curve))
        return np.where(is_inside, leave - lift**2 / (3 * np.where(is_inside, curve, 1.0)), 0.0)

    def sample(self, seconds: float) -> np.ndarray:
        """Joint angles (J,) at a time, by cubic interpolation; the first or last outside the time range."""
        times = self.times_s
        if seconds <= times[0]:
            return np.asarray(self.positions_rad[0])
        if seconds >= times[-1]:
            return np.asarray(self.positions_rad[-1])
        after = int(np.searchsorted(times, seconds, side="right"))
        span = times[after] - times[after - 1]
        u = (seconds - times[after - 1]) / span
        start, end = self.positions_rad[after - 1], self.positions_rad[after]
        leave, arrive = self.velocities_rad_s[after - 1] * span, self.velocities_rad_s[after] * span
        chord = end - start
        return np.asarray(start + u * (leave + u * (3 * chord - 2 * leave - arrive + u * (leave + arrive - 2 * chord))))


def plan_line(
    kinematics: Kinematics, limits: JointLimits, start_rad: np.ndarray, goal: ToolPose, *, tool_speed_m_s: float
) -> Trajectory:
    """Move the tool from these joint angles to a pose in a straight line, within speed, acceleration and jerk."""
    start = kinematics.locate_tool(start_rad)
    # The arm may not be exactly where the inverse puts it; the difference fades out along the line.
    off_rad = start_rad - kinematics.solve(_between(start, goal, 0.0))

    def turn_to(shares: np.ndarray) -> np.ndarray:
        solved = [kinematics.solve(_between(start, goal, float(share))) for share in shares]
        return np.stack(solved) + np.outer(1.0 - shares, off_rad)

    shares = np.linspace(0.0, 1.0, PROBES)
    slope = np.gradient(turn_to(shares), shares, axis=0)
    bend = np.abs(np.gradient(slope, shares, axis=0)).max()
    steepest = np.abs(slope).max()
    length = math.dist((start.x_m, start.y_m, start.z_m), (goal.x_m, goal.y_m, goal.z_m))
    # How fast the share may grow: by the tool's speed, each joint's, and at most half the acceleration for bends.
    speed = min(
        tool_speed_m_s / max(length, TINY),
        float((limits.velocity_rad_s / np.maximum(np.abs(slope).max(axis=0), TINY)).min()),
        math.sqrt(limits.acceleration_rad_s2 / 2 / max(bend, TINY)),
    )
    times, shares, rates = _time(
        np.zeros(1),
        np.ones(1),
        speed=np.array([speed]),
        acceleration=(limits.acceleration_rad_s2 - bend * speed**2) / max(steepest, TINY),
        jerk=limits.jerk_rad_s3 / max(steepest, TINY),
    )
    path = turn_to(shares[:, 0])
    return _slow_down(times, path, np.gradient(path, shares[:, 0], axis=0) * rates, limits)


def plan_joints(limits: JointLimits, start_rad: np.ndarray, goal_rad: np.ndarray) -> Trajectory:
    """Turn all joints at once from one set of angles to another, within speed, acceleration and jerk."""
    times, path, velocities = _time(
        start_rad,
        goal_rad,
        speed=limits.velocity_rad_s,
        acceleration=limits.acceleration_rad_s2,
        jerk=limits.jerk_rad_s3,
    )
    return _slow_down(times, path, velocities, limits)


def plan_hold(joints_rad: np.ndarray, *, seconds: float = 0.02) -> Trajectory:
    """Go to these joint angles at once and stay."""
    return Trajectory(np.array([seconds]), joints_rad[np.newaxis].copy(), np.zeros((1, len(joints_rad))))


def find_reachable(
    kinematics: Kinematics, limits: JointLimits, start_rad: np.ndarray, goal: ToolPose
) -> tuple[ToolPose, float, tuple[str, ...]]:
    """The furthest pose towards the goal that the joints allow, its share of the way, and why it goes no further."""
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
    """A pose on the straight line; a tilted tool is straightened at once."""
    turn = math.remainder(goal.yaw_rad - start.yaw_rad, math.tau)
    return ToolPose(
        x_m=start.x_m + share * (goal.x_m - start.x_m),
        y_m=start.y_m + share * (goal.y_m - start.y_m),
        z_m=start.z_m + share * (goal.z_m - start.z_m),
        yaw_rad=start.yaw_rad + share * turn,
    )


def _time(
    start: np.ndarray, goal: np.ndarray, *, speed: np.ndarray, acceleration: float, jerk: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fastest motion from rest to rest with all values in proportion: times (N,), values and rates (N, D)."""
    import ruckig

    degrees = len(start)
    problem = ruckig.InputParameter(degrees)
    problem.current_position, problem.target_position = start.tolist(), goal.tolist()
    problem.max_velocity = np.minimum(speed, LARGEST).tolist()
    problem.max_acceleration = [min(acceleration, LARGEST)] * degrees
    problem.max_jerk = [min(jerk, LARGEST)] * degrees
    problem.synchronization = ruckig.Synchronization.Phase
    problem.minimum_duration = SHORTEST_S
    way = ruckig.Trajectory(degrees)
    ruckig.Ruckig(degrees).calculate(problem, way)
    times = np.linspace(0.0, way.duration, SAMPLES)
    states = [way.at_time(float(seconds)) for seconds in times]
    values, rates = np.array([state[0] for state in states]), np.array([state[1] for state in states])
    values[0], values[-1], rates[0], rates[-1] = start, goal, 0.0, 0.0
    return times, values, rates


def _pieces(times: np.ndarray, path: np.ndarray, velocities: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each cubic piece, over u from 0 to 1: its velocity is leave + 2 lift u + 3 curve u^2."""
    leave, arrive = velocities[:-1], velocities[1:]
    mean = np.diff(path, axis=0) / np.diff(times)[:, np.newaxis]
    return leave, 3 * mean - 2 * leave - arrive, leave + arrive - 2 * mean


def _slow_down(times: np.ndarray, path: np.ndarray, velocities: np.ndarray, limits: JointLimits) -> Trajectory:
    """Stretch the times until the cubic pieces between the points keep the joints' speed limits."""
    fastest = Trajectory(times, path, velocities).fastest_rad_s()
    factor = max(1.0, float((fastest / limits.velocity_rad_s).max()))
    return Trajectory(times * factor, path, velocities / factor)
