"""How the topics of a lab's own recording map to grasp episodes: one YAML file, one dataclass."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from opc_ros.errors import StoreError
from opc_ros.grasp import GraspAction, ToolState

_STEP = re.compile(r"([A-Za-z_]\w*)((?:\[\d+\])*)")


@dataclass(frozen=True, slots=True)
class FieldAt:
    """One number in the messages of one topic, as a path: `pose.position.x`, `position[6]`."""

    topic: str
    field: str


@dataclass(frozen=True, slots=True)
class ToolFields:
    """Where to find the tool's pose in the base frame: metres, and yaw or a quaternion."""

    x_m: str
    y_m: str
    z_m: str
    yaw_rad: str = ""
    orientation: str = ""  # a quaternion with x, y, z and w, of which only the yaw is used

    def __post_init__(self) -> None:
        if bool(self.yaw_rad) == bool(self.orientation):
            raise ValueError("give either yaw_rad or orientation")

    def read(self, message: Any) -> tuple[float, float, float, float]:
        x, y, z = (read_number(message, path) for path in (self.x_m, self.y_m, self.z_m))
        if self.yaw_rad:
            return x, y, z, read_number(message, self.yaw_rad)
        turn = read_field(message, self.orientation)
        yaw = math.atan2(2 * (turn.w * turn.z + turn.x * turn.y), 1 - 2 * (turn.y**2 + turn.z**2))
        return x, y, z, yaw


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMapping(ToolFields):
    """The tool's pose in the messages of one topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class ActionFields:
    """Where to find actions; a field that is not given is zero or false."""

    dx_m: str
    dy_m: str
    dz_m: str
    rotation_rad: str = ""
    rotation_sin: str = ""
    rotation_cos: str = ""
    open_gripper: str = ""
    close_gripper: str = ""
    terminate: str = ""

    def __post_init__(self) -> None:
        if bool(self.rotation_sin) != bool(self.rotation_cos) or (self.rotation_rad and self.rotation_sin):
            raise ValueError("give rotation_rad, or rotation_sin and rotation_cos, or none of them")

    def read(self, message: Any) -> GraspAction:
        def number(path: str) -> float:
            return read_number(message, path) if path else 0.0

        rotation = math.atan2(number(self.rotation_sin), number(self.rotation_cos)) if self.rotation_sin else 0.0
        return GraspAction(
            displacement_m=(number(self.dx_m), number(self.dy_m), number(self.dz_m)),
            rotation_rad=number(self.rotation_rad) if self.rotation_rad else rotation,
            open_gripper=number(self.open_gripper) > 0.5,
            close_gripper=number(self.close_gripper) > 0.5,
            terminate=number(self.terminate) > 0.5,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionMapping(ActionFields):
    """Actions in the messages of one topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class EpisodeMapping:
    """A topic that says when episodes begin and end: its field equals one of two numbers."""

    topic: str
    field: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class LabelMapping:
    """A topic that says whether the grasp succeeded: its field is above one half, or equals `success`."""

    topic: str
    field: str
    success: float | None = None

    def read(self, message: Any) -> bool:
        value = read_number(message, self.field)
        return value > 0.5 if self.success is None else value == self.success


@dataclass(frozen=True, slots=True)
class BagMapping:
    """Everything that an import needs to know; what is left out has a default."""

    robot: str
    behaviour_policy: str
    camera: str  # a topic of CompressedImage or Image
    tool: ToolMapping
    aperture_m: FieldAt | None = None  # without it, the gripper counts as open, `open_aperture_m` wide
    action: ActionMapping | None = None  # without it, an action is the tool's motion up to the next step
    episodes: EpisodeMapping | None = None  # without it, each recording is one episode
    label: LabelMapping | Literal["success", "failure"] | None = None  # without it, episodes stay unlabelled
    object_set: str = ""
    step_s: float = 0.0  # without actions: take a frame this often; 0 takes every frame
    open_aperture_m: float = 0.08
    gripper_change_m: float = 0.01  # without actions: a change of aperture this large counts as opening or closing
    newest_age_s: float = 0.5  # how far apart in time a tool measurement and its frame may be
    frame_age_s: float = 0.5  # how old the newest frame may be when an action is chosen on it
    clock: Literal["received", "stamp"] = "received"  # match by time of receipt, or by the senders' header timestamps

    @property
    def topics(self) -> tuple[str, ...]:
        parts = (self.tool, self.aperture_m, self.action, self.episodes, self.label)
        named = [part.topic for part in parts if part is not None and not isinstance(part, str)]
        return tuple(dict.fromkeys((self.camera, *named)))


def derive_action(before: ToolState, after: ToolState, *, gripper_change_m: float) -> GraspAction:
    """The action that moves the tool from one step to the next."""
    opened = after.aperture_m - before.aperture_m
    return GraspAction(
        displacement_m=(after.x_m - before.x_m, after.y_m - before.y_m, after.z_m - before.z_m),
        rotation_rad=math.remainder(after.yaw_rad - before.yaw_rad, math.tau),
        open_gripper=opened > gripper_change_m,
        close_gripper=opened < -gripper_change_m,
    )


def read_number(message: Any, path: str) -> float:
    value = read_field(message, path)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise StoreError(f"field {path!r} of {_kind(message)} is {value!r}, expected a number") from None
    if not math.isfinite(number):
        raise StoreError(f"field {path!r} of {_kind(message)} is {number}, expected a finite number")
    return number


def read_field(message: Any, path: str) -> Any:
    value = message
    for word in path.split("."):
        step = _STEP.fullmatch(word)
        if step is None:
            raise StoreError(f"field {path!r}: {word!r} is not a field name, expected for example position[6]")
        try:
            value = getattr(value, step[1])
            for index in re.findall(r"\d+", step[2]):
                value = value[int(index)]
        except (AttributeError, IndexError, TypeError):
            raise StoreError(f"field {path!r}: {_kind(message)} has no {word!r}") from None
    return value


def _kind(message: Any) -> str:
    return str(getattr(message, "__msgtype__", type(message).__name__))
