"""Forward and inverse kinematics: joint angles of a serial arm to the pose of its tool and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.model import ArmModel
from opc_ros.errors import ConfigError, OutOfReach

STRIDE = 0.4  # metres or radians that the tool is led in one iteration: a longer one might jump a singularity
ITERATIONS = 40
EXACT = 1e-12  # metres and radians by which a pose may be missed


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
    """Forward and inverse kinematics of one arm with a tool.

    The inverse always starts from the same posture and never crosses a singularity on its way, so each pose with the
    tool straight down has one solution, and nearby poses have nearby solutions. Redundant joints keep their angles from
    the posture. An instance is for one thread.
    """

    def __init__(
        self,
        model: ArmModel,
        mount: ToolMount | None = None,
        *,
        posture_rad: Sequence[float],
        held: Sequence[int] = (),
    ) -> None:
        """`held` are indices of joints, from 0."""
        import pinocchio

        if len(posture_rad) != model.joints:
            raise ConfigError(f"posture has {len(posture_rad)} angles, expected {model.joints} for {model.name}")
        mount = mount or ToolMount()
        self.model = model
        self._data = model.chain.createData()
        self._last = model.joints  # pinocchio counts the universe as joint 0
        on_flange = pinocchio.SE3(_turn_z(mount.yaw_rad), np.array([mount.x_m, mount.y_m, mount.z_m]))
        self._tool = model.flange * on_flange  # in the last joint's frame
        self._from_tool = self._tool.inverse()
        self._posture_rad = np.array(posture_rad, dtype=float)
        self._free = np.array([joint for joint in range(model.joints) if joint not in held])
        self._is_square = len(self._free) == 6
        self._side = self._tell_side(self._posture_rad)

    def locate_tool(self, joints_rad: np.ndarray) -> ToolPose:
        """Where the tool is at these joint angles (J,)."""
        rotation, position = self._locate(joints_rad, self._tool)
        return ToolPose(
            x_m=float(position[0]),
            y_m=float(position[1]),
            z_m=float(position[2]),
            yaw_rad=math.atan2(-rotation[0, 1] - rotation[1, 0], rotation[1, 1] - rotation[0, 0]),
            tilt_rad=math.acos(min(1.0, max(-1.0, -rotation[2, 2]))),
        )

    def locate_flange(self, joints_rad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotation (3, 3) and position (3,) of the flange in the base frame."""
        return self._locate(joints_rad, self.model.flange)

    def solve(self, pose: ToolPose) -> np.ndarray:
        """Joint angles (J,) that bring the tool, straight down, to the pose; raises OutOfReach."""
        import pinocchio

        chain, data, free = self.model.chain, self._data, self._free
        down = _turn_z(pose.yaw_rad) * (-1.0, 1.0, -1.0)
        goal = pinocchio.SE3(down, np.array([pose.x_m, pose.y_m, pose.z_m])) * self._from_tool
        joints = self._posture_rad.copy()
        missed = math.inf
        for _ in range(ITERATIONS):
            pinocchio.forwardKinematics(chain, data, joints)
            away = data.oMi[self._last].actInv(goal)
            error = np.concatenate([away.translation, pinocchio.log3(away.rotation)])
            before, missed = missed, float(abs(error).max())
            # Rounding errors keep the last digits from converging, so stop once they no longer improve.
            if missed < EXACT and missed >= before / 2:
                break
            jacobian = pinocchio.computeJointJacobian(chain, data, joints, self._last)[:, free]
            joints[free] += self._divide(jacobian, error * min(1.0, STRIDE / max(missed, EXACT)))
        if missed >= EXACT or self._tell_side(joints) != self._side:
            raise OutOfReach(f"{_describe(pose)}: {self.model.name} does not reach there with the tool straight down")
        self._refuse_beyond_limits(pose, joints)
        return joints

    def _locate(self, joints_rad: np.ndarray, where: object) -> tuple[np.ndarray, np.ndarray]:
        import pinocchio

        pinocchio.forwardKinematics(self.model.chain, self._data, np.asarray(joints_rad, dtype=float))
        placed = self._data.oMi[self._last] * where
        return placed.rotation, placed.translation

    def _divide(self, jacobian: np.ndarray, error: np.ndarray) -> np.ndarray:
        if self._is_square:
            try:
                return np.linalg.solve(jacobian, error)
            except np.linalg.LinAlgError:
                pass
        return np.asarray(np.linalg.lstsq(jacobian, error, rcond=1e-9)[0])

    def _tell_side(self, joints_rad: np.ndarray) -> bool:
        """Which side of its singularities the arm is on: elbow up or down, wrist flipped or not."""
        import pinocchio

        if not self._is_square:
            return True
        jacobian = pinocchio.computeJointJacobian(self.model.chain, self._data, joints_rad, self._last)
        return bool(np.linalg.det(jacobian[:, self._free]) > 0.0)

    def _refuse_beyond_limits(self, pose: ToolPose, joints: np.ndarray) -> None:
        beyond = np.flatnonzero((joints < self.model.lower_rad) | (joints > self.model.upper_rad))
        if beyond.size:
            joint = int(beyond[0])
            low, high = self.model.lower_rad[joint], self.model.upper_rad[joint]
            raise OutOfReach(
                f"{_describe(pose)}: joint {joint + 1} would be at {math.degrees(joints[joint]):+.1f} deg, "
                f"allowed from {math.degrees(low):+.0f} to {math.degrees(high):+.0f}"
            )


def _describe(pose: ToolPose) -> str:
    return f"tool at ({pose.x_m:.3f}, {pose.y_m:.3f}, {pose.z_m:.3f}) m, yaw {math.degrees(pose.yaw_rad):+.1f} deg"


def _turn_z(angle: float) -> np.ndarray:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
