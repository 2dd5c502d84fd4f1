"""The KUKA LBR iiwa 14 R820: its limits, and joint angles for a tool that points straight down."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ArmError

JOINTS = 7
# Datasheet of the LBR iiwa 14 R820, axes A1 to A7.
POSITION_LIMITS_RAD = np.radians([170.0, 120.0, 170.0, 120.0, 170.0, 120.0, 175.0])  # (7,), either way
SPEED_LIMITS_RAD_S = np.radians([85.0, 85.0, 100.0, 75.0, 130.0, 135.0, 135.0])  # (7,)
TORQUE_LIMITS_NM = np.array([320.0, 320.0, 176.0, 176.0, 110.0, 40.0, 40.0])  # (7,)

SHOULDER_HEIGHT_M = 0.36
UPPER_ARM_M = 0.42
FOREARM_M = 0.40
WRIST_TO_FLANGE_M = 0.126
FLANGE_TO_TOOL_M = 0.145  # to the point between the fingertips


@dataclass(frozen=True, slots=True)
class ToolPose:
    """A tool that points straight down: the point between its fingertips, and its turn about base z."""

    x_m: float
    y_m: float
    z_m: float
    yaw_rad: float


def solve_joints(pose: ToolPose, *, tool_length_m: float = FLANGE_TO_TOOL_M) -> np.ndarray:
    """Joint angles (7,) for a pose, with A3 and A5 at zero, which leaves a planar arm with one elbow-up answer."""
    across = math.hypot(pose.x_m, pose.y_m)
    up = pose.z_m + tool_length_m + WRIST_TO_FLANGE_M - SHOULDER_HEIGHT_M
    distance = math.hypot(across, up)
    if not abs(UPPER_ARM_M - FOREARM_M) < distance < UPPER_ARM_M + FOREARM_M:
        raise ArmError(
            f"tool at ({pose.x_m:.3f}, {pose.y_m:.3f}, {pose.z_m:.3f}) m: wrist {distance:.3f} m from the shoulder, "
            f"expected below {UPPER_ARM_M + FOREARM_M:.3f} m; keep to the workspace"
        )
    # Law of cosines in the plane of shoulder, elbow and wrist.
    lean = math.acos((UPPER_ARM_M**2 + distance**2 - FOREARM_M**2) / (2 * UPPER_ARM_M * distance))
    elbow = math.pi - math.acos((UPPER_ARM_M**2 + FOREARM_M**2 - distance**2) / (2 * UPPER_ARM_M * FOREARM_M))
    a1 = math.atan2(pose.y_m, pose.x_m)
    a2 = math.atan2(across, up) - lean
    a4 = -elbow
    a6 = math.pi - a2 + a4
    a7 = math.remainder(a1 - pose.yaw_rad, math.tau)
    angles = np.array([a1, a2, 0.0, a4, 0.0, a6, a7])
    outside = np.flatnonzero(np.abs(angles) > POSITION_LIMITS_RAD)
    if outside.size:
        axis = int(outside[0])
        raise ArmError(
            f"tool at ({pose.x_m:.3f}, {pose.y_m:.3f}, {pose.z_m:.3f}) m, yaw {pose.yaw_rad:.3f} rad: A{axis + 1} would be "
            f"{angles[axis]:.3f} rad, allowed +-{POSITION_LIMITS_RAD[axis]:.3f}"
        )
    return angles


def locate_tool(positions_rad: np.ndarray, *, tool_length_m: float = FLANGE_TO_TOOL_M) -> np.ndarray:
    """Base-from-tool transform (4, 4) of any joint angles (7,)."""
    pose = np.eye(4)
    # Axis of each joint at zero angles (all links upright), and the way up to it from the joint before.
    chain = (
        ("z", 0.0),
        ("y", SHOULDER_HEIGHT_M),
        ("z", 0.0),
        ("-y", UPPER_ARM_M),
        ("z", 0.0),
        ("y", FOREARM_M),
        ("z", 0.0),
    )
    for (axis, rise_m), angle in zip(chain, positions_rad, strict=True):
        pose = pose @ _joint_transform(axis, rise_m, float(angle))
    pose = pose @ _joint_transform("z", WRIST_TO_FLANGE_M + tool_length_m, 0.0)
    return pose


def yaw_of(base_from_tool: np.ndarray) -> float:
    """Turn about base z of a tool that points down, from its y axis, along which the fingers move."""
    return math.atan2(-base_from_tool[0, 1], base_from_tool[1, 1])


def _joint_transform(axis: str, rise_m: float, angle_rad: float) -> np.ndarray:
    sine, cosine = math.sin(angle_rad), math.cos(angle_rad)
    if axis == "z":
        rotation = [[cosine, -sine, 0, 0], [sine, cosine, 0, 0], [0, 0, 1, rise_m], [0, 0, 0, 1]]
    else:
        if axis == "-y":
            sine = -sine
        rotation = [[cosine, 0, sine, 0], [0, 1, 0, 0], [-sine, 0, cosine, rise_m], [0, 0, 0, 1]]
    return np.array(rotation, dtype=np.float64)
