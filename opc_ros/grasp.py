"""What a grasp is made of: observations, actions, steps and episodes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum

import cv2
import numpy as np

from opc_ros.errors import GraspError

ACTION_NAMES = ("dx", "dy", "dz", "sin", "cos", "open", "close", "terminate")
ACTION_SIZE = len(ACTION_NAMES)
TOOL_SIZE = 5
MAX_STEPS = 20


@dataclass(frozen=True, slots=True)
class GraspAction:
    """One move of the tool, as its policy chose it."""

    displacement_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # in the base frame
    rotation_rad: float = 0.0  # about base z, counter-clockwise
    open_gripper: bool = False
    close_gripper: bool = False
    terminate: bool = False

    def __post_init__(self) -> None:
        if len(self.displacement_m) != 3:
            raise GraspError(f"action: displacement has {len(self.displacement_m)} numbers, expected 3")
        if not all(map(math.isfinite, (*self.displacement_m, self.rotation_rad))):
            raise GraspError(
                f"action: displacement {self.displacement_m}, rotation {self.rotation_rad}: expected finite"
            )
        if self.open_gripper and self.close_gripper:
            raise GraspError("action: opens and closes the gripper at once, expected one of them")

    def to_vector(self) -> np.ndarray:
        """The 8 numbers a Q function sees; their order is ACTION_NAMES."""
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

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> GraspAction:
        """Read 8 numbers; sine and cosine need not be normalised, and a flag is up above one half."""
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != (ACTION_SIZE,):
            raise GraspError(f"action has {values.size} numbers, expected {ACTION_SIZE}")
        if not np.isfinite(values).all():
            raise GraspError(f"action {values.tolist()}: expected finite numbers")
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

    displacement_m: float = 0.08  # along each axis, either way
    rotation_rad: float = math.pi / 4  # either way

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
    """Where the tool is, in the base frame, and how wide the gripper stands open."""

    x_m: float
    y_m: float
    z_m: float
    yaw_rad: float
    aperture_m: float

    def to_vector(self) -> np.ndarray:
        return np.array([self.x_m, self.y_m, self.z_m, self.yaw_rad, self.aperture_m], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Frame:
    """A camera image in the bytes the camera sent."""

    stamp_ns: int
    encoding: str  # "jpeg", "png", or a raw ROS encoding: "rgb8", "bgr8", "mono8"
    data: bytes
    width: int = 0  # known for raw encodings only
    height: int = 0

    def decode(self) -> np.ndarray:
        """The image as (H, W, 3) RGB bytes."""
        if self.encoding in ("jpeg", "png"):
            decoded = cv2.imdecode(np.frombuffer(self.data, dtype=np.uint8), cv2.IMREAD_COLOR) if self.data else None
            if decoded is None:
                raise GraspError(f"frame at {self.stamp_ns} ns: {len(self.data)} bytes are no {self.encoding} image")
            return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB))
        channels = {"rgb8": 3, "bgr8": 3, "mono8": 1}.get(self.encoding)
        if channels is None:
            raise GraspError(
                f"frame at {self.stamp_ns} ns: encoding {self.encoding!r}, expected jpeg, png, rgb8, bgr8 or mono8"
            )
        if len(self.data) != self.width * self.height * channels:
            raise GraspError(
                f"frame at {self.stamp_ns} ns: {len(self.data)} bytes, expected {self.width}x{self.height}x{channels}"
            )
        pixels = np.frombuffer(self.data, dtype=np.uint8).reshape(self.height, self.width, channels)
        if self.encoding == "bgr8":
            return np.ascontiguousarray(pixels[:, :, ::-1])
        return np.repeat(pixels, 3, axis=2) if channels == 1 else pixels

    @classmethod
    def from_image(cls, image: np.ndarray, stamp_ns: int, *, quality: int = 95) -> Frame:
        """Encode an (H, W, 3) RGB image as JPEG."""
        done, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
        if not done:
            raise GraspError(f"frame at {stamp_ns} ns: image of shape {image.shape} cannot be encoded as JPEG")
        return cls(stamp_ns=stamp_ns, encoding="jpeg", data=data.tobytes(), width=image.shape[1], height=image.shape[0])


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees before it chooses."""

    stamp_ns: int
    image: np.ndarray  # (H, W, 3) uint8, RGB
    tool: ToolState


@dataclass(frozen=True, slots=True)
class GraspStep:
    """One frame, the tool when it was taken, the action chosen on it, and what was sent to the arm."""

    frame: Frame
    tool: ToolState
    action: GraspAction
    sent: GraspAction | None = None  # after clamping; None where the action went out as chosen

    def observe(self) -> Observation:
        """Decode the frame into what the policy saw."""
        return Observation(stamp_ns=self.frame.stamp_ns, image=self.frame.decode(), tool=self.tool)


class LabelSource(StrEnum):
    """Who says whether an episode succeeded."""

    NONE = "none"
    EPISODE_END = "episode_end"
    GRIPPER_WIDTH = "gripper_width"
    PERSON = "person"
    IMPORT = "import"


@dataclass(frozen=True, slots=True)
class Label:
    """Whether an episode succeeded, and who says so."""

    is_success: bool | None = None  # None: nobody knows yet
    source: LabelSource = LabelSource.NONE
    labeller: str = ""

    def __post_init__(self) -> None:
        if (self.is_success is None) != (self.source is LabelSource.NONE):
            raise GraspError(
                f"label: success is {self.is_success} with source {self.source.value!r}; give both or neither"
            )


@dataclass(frozen=True, slots=True)
class Episode:
    """One grasp attempt from first frame to last action."""

    id: str
    robot: str
    behaviour_policy: str
    steps: tuple[GraspStep, ...]
    label: Label = Label()
    object_set: str = ""
    permit_id: str = ""

    def __post_init__(self) -> None:
        if not self.steps:
            raise GraspError(f"episode {self.id}: has no steps, expected at least one")
        stamps = [step.frame.stamp_ns for step in self.steps]
        for index, (before, after) in enumerate(itertools.pairwise(stamps), start=1):
            if after <= before:
                raise GraspError(
                    f"episode {self.id}: frame of step {index} is at {after} ns, expected after {before} ns"
                )
        for index, step in enumerate(self.steps[:-1]):
            if step.action.terminate:
                raise GraspError(
                    f"episode {self.id}: step {index} terminates, but {len(self.steps)} steps follow in all"
                )

    @property
    def started_ns(self) -> int:
        return self.steps[0].frame.stamp_ns

    def actions(self) -> np.ndarray:
        """Action vectors as chosen, (T, 8)."""
        return np.stack([step.action.to_vector() for step in self.steps])
