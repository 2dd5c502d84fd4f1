"""Kinematics of the KUKA LBR iiwa, in closed form for a tool that points straight down."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ConfigError, OutOfReach

JOINTS = 7
AXIS_RADIUS_M = 1e-3  # a wrist nearer to the first joint's axis than this leaves that joint undetermined

Joints = tuple[float, float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class ArmModel:
    """An LBR's dimensions between its joint centres, and its joint limits."""

    name: str
    base_to_shoulder_m: float
    shoulder_to_elbow_m: float
    elbow_to_wrist_m: float
    wrist_to_flange_m: float
    largest_position_deg: Joints  # either way
    largest_velocity_deg_s: Joints

    @property
    def largest_position_rad(self) -> np.ndarray:  # (7,)
        return np.radians(self.largest_position_deg)

    @property
    def largest_velocity_rad_s(self) -> np.ndarray:  # (7,)
        return np.radians(self.largest_velocity_deg_s)


ARM_MODELS = {
    model.name: model
    for model in (
        ArmModel(
            "lbr_iiwa_14_r820",
            *(0.360, 0.420, 0.400, 0.126),
            largest_position_deg=(170.0, 120.0, 170.0, 120.0, 170.0, 120.0, 175.0),
            largest_velocity_deg_s=(85.0, 85.0, 100.0, 75.0, 130.0, 135.0, 135.0),
        ),
        ArmModel(
            "lbr_iiwa_7_r800",
            *(0.340, 0.400, 0.400, 0.126),
            largest_position_deg=(170.0, 120.0, 170.0, 120.0, 170.0, 120.0, 175.0),
            largest_velocity_deg_s=(98.0, 98.0, 100.0, 130.0, 140.0, 180.0, 180.0),
        ),
    )
}


def find_arm_model(name: str) -> ArmModel:
    if name not in ARM_MODELS:
        raise ConfigError(f"arm model {name!r}, expected one of {', '.join(ARM_MODELS)}")
    return ARM_MODELS[name]


@dataclass(frozen=True, slots=True)
class ToolMount:
    """Where the point between the finger tips sits on the flange."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0  # along the flange's axis, away from the arm
    yaw_rad: float = 0.0  # about the flange's axis


@dataclass(frozen=True, slots=True)
class ToolPose:
    """The tool in the base frame.

    Yaw turns about base z; at zero, a tool that points down has its x axis along base -x. Tilt is the angle
    between the tool and straight down.
    """

    x_m: float
    y_m: float
    z_m: float
    yaw_rad: float
    tilt_rad: float = 0.0


class Kinematics:
    """Between joint angles and the pose of a tool.

    The inverse keeps the third and fifth joint at zero and the elbow up, so that every pose with the tool straight
    down has one answer, and poses near each other have answers near each other.
    """

    def __init__(self, model: ArmModel, mount: ToolMount | None = None) -> None:
        self.model = model
        self._mount = mount or ToolMount()
        self._limits_rad = model.largest_position_rad

    def locate_tool(self, joints_rad: np.ndarray) -> ToolPose:
        """Where the tool is at these joint angles (7,)."""
        rotation, position = self.locate_flange(joints_rad)
        position = position + rotation @ (self._mount.x_m, self._mount.y_m, self._mount.z_m)
        tool = rotation @ _turn_z(self._mount.yaw_rad)
        return ToolPose(
            x_m=float(position[0]),
            y_m=float(position[1]),
            z_m=float(position[2]),
            yaw_rad=math.atan2(-tool[0, 1] - tool[1, 0], tool[1, 1] - tool[0, 0]),
            tilt_rad=math.acos(min(1.0, max(-1.0, -tool[2, 2]))),
        )

    def locate_flange(self, joints_rad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotation (3, 3) and position (3,) of the flange in the base frame."""
        model = self.model
        q = [float(angle) for angle in joints_rad]
        rotation = _turn_z(q[0]) @ _turn_y(q[1])
        position = np.array([0.0, 0.0, model.base_to_shoulder_m]) + rotation[:, 2] * model.shoulder_to_elbow_m
        rotation = rotation @ _turn_z(q[2]) @ _turn_y(-q[3])
        position = position + rotation[:, 2] * model.elbow_to_wrist_m
        rotation = rotation @ _turn_z(q[4]) @ _turn_y(q[5]) @ _turn_z(q[6])
        return rotation, position + rotation[:, 2] * model.wrist_to_flange_m

    def solve(self, pose: ToolPose) -> np.ndarray:
        """Joint angles (7,) that bring the tool, straight down, to the pose; refuses what the arm cannot take."""
        flange_yaw = pose.yaw_rad + self._mount.yaw_rad
        cos, sin = math.cos(flange_yaw), math.sin(flange_yaw)
        # The flange points down: its x and z axes are reversed, then turned by its yaw.
        wrist_x = pose.x_m + cos * self._mount.x_m + sin * self._mount.y_m
        wrist_y = pose.y_m + sin * self._mount.x_m - cos * self._mount.y_m
        wrist_z = pose.z_m + self._mount.z_m + self.model.wrist_to_flange_m
        first = self._solve_first(pose, wrist_x, wrist_y)
        second, fourth = self._solve_plane(pose, math.hypot(wrist_x, wrist_y), wrist_z - self.model.base_to_shoulder_m)
        sixth = math.pi - second + fourth
        seventh = math.remainder(first - flange_yaw, math.tau)
        joints = np.array([first, second, 0.0, fourth, 0.0, sixth, seventh])
        self._refuse_beyond_limits(pose, joints)
        return joints

    def _solve_first(self, pose: ToolPose, wrist_x: float, wrist_y: float) -> float:
        if math.hypot(wrist_x, wrist_y) < AXIS_RADIUS_M:
            raise OutOfReach(f"{_describe(pose)}: the wrist would stand on the first joint's axis; move away from it")
        return math.atan2(wrist_y, wrist_x)

    def _solve_plane(self, pose: ToolPose, out_m: float, up_m: float) -> tuple[float, float]:
        """Second and fourth joint, by the triangle of shoulder, elbow and wrist."""
        upper, lower = self.model.shoulder_to_elbow_m, self.model.elbow_to_wrist_m
        distance = math.hypot(out_m, up_m)
        if not abs(upper - lower) < distance <= upper + lower:
            raise OutOfReach(
                f"{_describe(pose)}: wrist would be {distance:.3f} m from the shoulder, "
                f"allowed from {abs(upper - lower):.3f} to {upper + lower:.3f}"
            )
        inner = (upper**2 + lower**2 - distance**2) / (2 * upper * lower)
        at_shoulder = (upper**2 + distance**2 - lower**2) / (2 * upper * distance)
        fourth = math.acos(min(1.0, max(-1.0, inner))) - math.pi
        second = math.atan2(out_m, up_m) - math.acos(min(1.0, max(-1.0, at_shoulder)))
        return second, fourth

    def _refuse_beyond_limits(self, pose: ToolPose, joints: np.ndarray) -> None:
        beyond = np.flatnonzero(np.abs(joints) > self._limits_rad)
        if beyond.size:
            joint = int(beyond[0])
            raise OutOfReach(
                f"{_describe(pose)}: joint {joint + 1} would be at {math.degrees(joints[joint]):+.1f} deg, "
                f"allowed +-{self.model.largest_position_deg[joint]:.0f}"
            )


def _describe(pose: ToolPose) -> str:
    return f"tool at ({pose.x_m:.3f}, {pose.y_m:.3f}, {pose.z_m:.3f}) m, yaw {math.degrees(pose.yaw_rad):+.1f} deg"


def _turn_z(angle: float) -> np.ndarray:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def _turn_y(angle: float) -> np.ndarray:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]])
