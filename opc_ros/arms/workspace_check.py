"""Checks without the arm whether it can reach its whole workspace."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from opc_ros.arms.kinematics import ToolPose
from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import OutOfReach

STEPS = 4  # along each axis
YAWS_RAD = (-math.pi / 4, 0.0, math.pi / 4)


@dataclass(frozen=True, slots=True)
class WorkspaceCheck:
    """The limits of each joint, and the poses that the tool cannot reach."""

    joints: tuple[tuple[str, float, float, float], ...]  # driver's name, from deg, to deg, deg/s
    poses: int
    unreached: tuple[str, ...]  # one line for each pose, at most ten


def check_workspace(settings: ArmSettings) -> WorkspaceCheck:
    kinematics, limits = settings.kinematics(), settings.joint_limits()
    low, high = settings.workspace.low_m, settings.workspace.high_m
    axes = [[a + (b - a) * step / STEPS for step in range(STEPS + 1)] for a, b in zip(low, high, strict=True)]
    unreached: list[str] = []
    poses = [settings.start.to_pose()]
    poses += [ToolPose(x, y, z, yaw) for x, y, z in itertools.product(*axes) for yaw in YAWS_RAD]
    for pose in poses:
        try:
            unreached += limits.position_violations(kinematics.solve(pose))[:1]
        except OutOfReach as error:
            unreached.append(str(error))
    rows = zip(settings.joint_names, limits.lower_rad, limits.upper_rad, limits.velocity_rad_s, strict=True)
    joints = tuple((name, *(round(math.degrees(value), 1) for value in values)) for name, *values in rows)
    return WorkspaceCheck(joints, len(poses), tuple(unreached[:10]))  # type: ignore[arg-type]
