"""The types of grasping: tool states, actions, observations and steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.episode import Frame
from opc_ros.errors import EpisodeError
from opc_ros.task import GRASPING

ACTION_NAMES = GRASPING.action_names
ACTION_SIZE = len(ACTION_NAMES)
TOOL_SIZE = len(GRASPING.state)
MAX_STEPS = GRASPING.max_steps


@dataclass(frozen=True, slots=True)
class GraspAction:
    """One move of the tool, as chosen by a policy."""

    displacement_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # in the base frame
    rotation_rad: float = 0.0  # about base z, counter-clockwise
    open_gripper: bool = False
    close_gripper: bool = False
    terminate: bool = False

    def __post_init__(self) -> None:
        if len(self.displacement_m) != 3:
            raise EpisodeError(f"action: displacement has {len(self.displacement_m)} numbers, expected 3")
        if not all(map(math.isfinite, (*self.displacement_m, self.rotation_rad))):
            raise EpisodeError(
                f"action: displacement {self.displacement_m}, rotation {self.rotation_rad}: expected finite"
            )
        if self.open_gripper and self.close_gripper:
            raise EpisodeError("action: opens and closes the gripper at once, expected one of them")

    def to_vector(self) -> np.ndarray:
        """The 8 numbers that a Q function gets, in the order of ACTION_NAMES."""
        return np.array(
            [
                *self.displacement_m,
                math.sin(self.rotation_rad),
                math.cos(self.rotation_rad),
                self.open_gripper,
                self.close_gripper,
                self.terminate,
            ],
            dtype=np.float32,
        )

    def describe(self) -> list[str]:
        """For people: the tool's displacement, then its rotation and what else happens."""
        flags = {"open": self.open_gripper, "close": self.close_gripper, "terminate": self.terminate}
        way = "  ".join(f"{axis} {1000 * value:+.0f}" for axis, value in zip("xyz", self.displacement_m, strict=True))
        turn = f"turn {math.degrees(self.rotation_rad):+.0f}°"
        return [f"{way} mm", "   ".join([turn, *(word for word, is_set in flags.items() if is_set)])]

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> GraspAction:
        """Parse 8 numbers; sine and cosine need not be normalised, and a flag is set above one half."""
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != (ACTION_SIZE,):
            raise EpisodeError(f"action has {values.size} numbers, expected {ACTION_SIZE}")
        if not np.isfinite(values).all():
            raise EpisodeError(f"action {values.tolist()}: expected finite numbers")
        dx, dy, dz, sin, cos, opens, closes, terminates = values.tolist()
        return cls(
            displacement_m=(dx, dy, dz),
            rotation_rad=math.atan2(sin, cos),
            open_gripper=opens > 0.5 and opens >= closes,
            close_gripper=closes > 0.5 and closes > opens,
            terminate=terminates > 0.5,
        )


@dataclass(frozen=True, slots=True)
class ActionBounds:
    """How far one action may go."""

    displacement_m: float = 0.08  # along each axis, in either direction
    rotation_rad: float = math.pi / 4  # in either direction

    def violations(self, action: GraspAction) -> tuple[str, ...]:
        """One line for each number outside its bound."""
        lines = [
            f"{name} is {value:+.4f} m, allowed +-{self.displacement_m:.4f}"
            for name, value in zip(ACTION_NAMES, action.displacement_m, strict=False)
            if abs(value) > self.displacement_m + 1e-6
        ]
        if abs(action.rotation_rad) > self.rotation_rad + 1e-6:
            lines.append(f"rotation is {action.rotation_rad:+.4f} rad, allowed +-{self.rotation_rad:.4f}")
        return tuple(lines)

    def clamp(self, action: GraspAction) -> GraspAction:
        x, y, z = (min(max(v, -self.displacement_m), self.displacement_m) for v in action.displacement_m)
        return GraspAction(
            displacement_m=(x, y, z),
            rotation_rad=min(max(action.rotation_rad, -self.rotation_rad), self.rotation_rad),
            open_gripper=action.open_gripper,
            close_gripper=action.close_gripper,
            terminate=action.terminate,
        )


@dataclass(frozen=True, slots=True)
class ToolState:
    """Where the tool is in the base frame, and how wide the gripper is open."""

    x_m: float
    y_m: float
    z_m: float
    yaw_rad: float
    aperture_m: float

    def to_vector(self) -> np.ndarray:
        return np.array([self.x_m, self.y_m, self.z_m, self.yaw_rad, self.aperture_m], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees before it chooses."""

    stamp_ns: int
    image: np.ndarray  # (H, W, 3) uint8, RGB
    tool: ToolState
    frame: Frame | None = None  # the bytes that the camera sent; None if there is no camera


@dataclass(frozen=True, slots=True)
class GraspStep:
    """One frame, the tool at that time, the action chosen on it, and what was sent to the arm."""

    frame: Frame
    tool: ToolState
    action: GraspAction
    sent: GraspAction | None = None  # after clamping; None if the action was sent as chosen

    @property
    def is_last(self) -> bool:
        return self.action.terminate

    def state_vector(self) -> np.ndarray:
        return self.tool.to_vector()

    def action_vector(self) -> np.ndarray:
        return self.action.to_vector()

    @property
    def is_clamped(self) -> bool:
        return self.sent is not None

    def describe(self) -> list[str]:
        lines = self.action.describe()
        return lines if self.sent is None else [*lines, f"clamped to {self.sent.describe()[0]}"]

    def observe(self) -> Observation:
        """Decode the frame into what the policy saw."""
        return Observation(self.frame.stamp_ns, self.frame.decode(), self.tool, self.frame)
