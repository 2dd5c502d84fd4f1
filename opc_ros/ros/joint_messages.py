"""Conversion between joint angles and the messages of arm drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Duration
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from opc_ros.arms.trajectory import Trajectory
from opc_ros.errors import ArmError, OutOfReach
from opc_ros.ros import convert


@dataclass(frozen=True, slots=True)
class JointReading:
    """Joints as measured at one time, in the order of the settings."""

    stamp_ns: int
    positions_rad: np.ndarray  # (7,)
    velocities_rad_s: np.ndarray | None  # (7,); None if the driver does not report them


def reading_to_msg(
    names: Sequence[str], positions: Sequence[float], velocities: Sequence[float], stamp_ns: int
) -> JointState:
    return JointState(
        header=convert.header(stamp_ns), name=list(names), position=list(positions), velocity=list(velocities)
    )


def reading_from_msg(msg: JointState, names: Sequence[str]) -> JointReading | None:
    """The joints with these names; None if the message is about other joints."""
    index = {name: i for i, name in enumerate(msg.name)}
    if not any(name in index for name in names):
        return None
    missing = [name for name in names if name not in index]
    if missing:
        raise ArmError(f"joint states name {', '.join(msg.name)}, but not {', '.join(missing)}: check joint_names")
    if len(msg.position) != len(msg.name):
        raise ArmError(f"joint states have {len(msg.name)} names and {len(msg.position)} positions")
    order = [index[name] for name in names]
    positions = np.array(msg.position)[order]
    if not np.isfinite(positions).all():
        raise ArmError(f"joint states are {positions.tolist()}, expected finite numbers")
    velocities = np.array(msg.velocity)[order] if len(msg.velocity) == len(msg.name) else None
    return JointReading(convert.stamp_to_ns(msg.header.stamp), positions, velocities)


def trajectory_to_msg(trajectory: Trajectory, names: Sequence[str]) -> JointTrajectory:
    """A trajectory without timestamp, which means: start at once."""
    points = [
        JointTrajectoryPoint(
            positions=positions.tolist(), velocities=velocities.tolist(), time_from_start=_duration(float(seconds))
        )
        for seconds, positions, velocities in zip(
            trajectory.times_s, trajectory.positions_rad, trajectory.velocities_rad_s, strict=True
        )
    ]
    return JointTrajectory(joint_names=list(names), points=points)


def trajectory_from_msg(msg: JointTrajectory, names: Sequence[str]) -> Trajectory:
    """A trajectory of exactly these joints, in any order; points without velocities count as points at rest."""
    if sorted(msg.joint_names) != sorted(names):
        raise OutOfReach(f"trajectory is for joints {', '.join(msg.joint_names)}, expected {', '.join(names)}")
    order = [list(msg.joint_names).index(name) for name in names]
    positions, velocities = [], []
    for index, point in enumerate(msg.points):
        if len(point.positions) != len(names) or len(point.velocities) not in (0, len(names)):
            raise OutOfReach(
                f"trajectory point {index} has {len(point.positions)} positions and {len(point.velocities)} "
                f"velocities, expected {len(names)} of each, or no velocities"
            )
        positions.append(np.array(point.positions)[order])
        velocities.append(np.array(point.velocities)[order] if point.velocities else np.zeros(len(names)))
    times = np.array([p.time_from_start.sec + p.time_from_start.nanosec * 1e-9 for p in msg.points])
    return Trajectory(times, np.reshape(positions, (-1, len(names))), np.reshape(velocities, (-1, len(names))))


def _duration(seconds: float) -> Duration:
    nanoseconds = round(seconds * 1e9)
    return Duration(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)
