"""An episode of any task: its header, its steps with their frames, and its label."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

import cv2
import numpy as np

from opc_ros.errors import EpisodeError
from opc_ros.image_header import read_image_size, refuse_large_image
from opc_ros.task import GRASPING, find_task

MAX_STAMP_NS = 2**31 * 1_000_000_000  # a ROS time has 32 bits of seconds
MAX_SEED = 2**63

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_REDUCED = ((8, cv2.IMREAD_REDUCED_COLOR_8), (4, cv2.IMREAD_REDUCED_COLOR_4), (2, cv2.IMREAD_REDUCED_COLOR_2))


@dataclass(frozen=True, slots=True)
class Frame:
    """A camera image in the bytes that the camera sent."""

    stamp_ns: int
    encoding: str  # "jpeg", "png", or a raw ROS encoding: "rgb8", "bgr8", "mono8"
    data: bytes
    width: int = 0  # only for raw encodings
    height: int = 0
    frame_id: str = "camera"  # the camera's optical frame

    def decode(self) -> np.ndarray:
        """The image as (H, W, 3) RGB bytes."""
        if self.encoding in ("jpeg", "png"):
            refuse_large_image(self.data, f"frame at {self.stamp_ns} ns")
            return self._decompress(cv2.IMREAD_COLOR)
        channels = {"rgb8": 3, "bgr8": 3, "mono8": 1}.get(self.encoding)
        if channels is None:
            raise EpisodeError(
                f"frame at {self.stamp_ns} ns: encoding {self.encoding!r}, expected jpeg, png, rgb8, bgr8 or mono8"
            )
        if len(self.data) != self.width * self.height * channels:
            raise EpisodeError(
                f"frame at {self.stamp_ns} ns: {len(self.data)} bytes, expected {self.width}x{self.height}x{channels}"
            )
        pixels = np.frombuffer(self.data, dtype=np.uint8).reshape(self.height, self.width, channels)
        if self.encoding == "bgr8":
            return np.ascontiguousarray(pixels[:, :, ::-1])
        return np.repeat(pixels, 3, axis=2) if channels == 1 else pixels

    def decode_reduced(self, size: tuple[int, int]) -> np.ndarray:
        """Decode at the smallest scale, down to 1/8, that is no smaller than (height, width); JPEG only.

        The codec skips frequencies that would not show, which is faster; other encodings are decoded at full size.
        """
        if self.encoding != "jpeg":
            return self.decode()
        refuse_large_image(self.data, f"frame at {self.stamp_ns} ns")
        width, height = read_image_size(self.data)
        for scale, flag in _REDUCED:
            if -(-height // scale) >= size[0] and -(-width // scale) >= size[1]:
                return self._decompress(flag)
        return self._decompress(cv2.IMREAD_COLOR)

    def _decompress(self, flag: int) -> np.ndarray:
        decoded = cv2.imdecode(np.frombuffer(self.data, dtype=np.uint8), flag) if self.data else None
        if decoded is None:
            raise EpisodeError(f"frame at {self.stamp_ns} ns: {len(self.data)} bytes are no {self.encoding} image")
        return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB))

    @classmethod
    def from_image(cls, image: np.ndarray, stamp_ns: int, *, quality: int = 95) -> Frame:
        """Encode an (H, W, 3) RGB image as JPEG."""
        done, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
        if not done:
            raise EpisodeError(f"frame at {stamp_ns} ns: image of shape {image.shape} cannot be encoded as JPEG")
        return cls(stamp_ns=stamp_ns, encoding="jpeg", data=data.tobytes(), width=image.shape[1], height=image.shape[0])

    @classmethod
    def lossless(cls, image: np.ndarray, stamp_ns: int) -> Frame:
        """Encode an (H, W, 3) RGB image as PNG, which decodes to exactly the same pixels."""
        done, data = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1])
        if not done:
            raise EpisodeError(f"frame at {stamp_ns} ns: image of shape {image.shape} cannot be encoded as PNG")
        return cls(stamp_ns=stamp_ns, encoding="png", data=data.tobytes(), width=image.shape[1], height=image.shape[0])


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A message recorded beside the frames, with its bytes unchanged."""

    type: str  # "sensor_msgs/msg/CameraInfo"
    stamp_ns: int
    data: bytes  # CDR


Outcome = Literal["success", "failure", "unlabelled", "excluded"]


class LabelSource(StrEnum):
    """Who or what says whether an episode succeeded."""

    NONE = "none"
    EPISODE_END = "episode_end"
    GRIPPER_WIDTH = "gripper_width"
    PERSON = "person"
    IMPORT = "import"
    EXCLUDED = "excluded"  # a person took the episode out of the validation set; only used in label revisions


@dataclass(frozen=True, slots=True)
class Label:
    """Whether an episode succeeded, and who says so."""

    is_success: bool | None = None  # None: not known yet
    source: LabelSource = LabelSource.NONE
    labeller: str = ""

    def __post_init__(self) -> None:
        if (self.is_success is None) != (self.source in (LabelSource.NONE, LabelSource.EXCLUDED)):
            raise EpisodeError(
                f"label: success is {self.is_success} with source {self.source.value!r}; give both or neither"
            )

    @property
    def is_excluded(self) -> bool:
        return self.source is LabelSource.EXCLUDED

    @property
    def outcome(self) -> Outcome:
        """The label in one word."""
        if self.is_success is None:
            return "excluded" if self.is_excluded else "unlabelled"
        return "success" if self.is_success else "failure"


class Step(Protocol):
    """One frame, the state besides it, and the action chosen on it; a task says what the numbers mean."""

    @property
    def frame(self) -> Frame: ...

    @property
    def is_last(self) -> bool:
        """Whether its action ends the episode."""
        ...

    @property
    def is_clamped(self) -> bool:
        """Whether the action that was sent differs from the one chosen."""
        ...

    def describe(self) -> list[str]:
        """Its action for people, in a few short lines."""
        ...

    def state_vector(self) -> np.ndarray:
        """(S,) float32, in the order of the task's state."""
        ...

    def action_vector(self) -> np.ndarray:
        """As chosen, (A,) float32, in the order of the task's actions."""
        ...


@dataclass(frozen=True, slots=True)
class PlainStep:
    """A step of a task without a step type of its own: numbers in the task's order."""

    frame: Frame
    action: tuple[float, ...]
    state: tuple[float, ...] = ()
    sent: tuple[float, ...] | None = None  # after clamping; None if the action was sent as chosen
    is_last: bool = False

    @property
    def is_clamped(self) -> bool:
        return self.sent is not None

    def describe(self) -> list[str]:
        sent = [] if self.sent is None else [f"clamped to {_show(self.sent)}"]
        return [_show(self.action), *sent]

    def state_vector(self) -> np.ndarray:
        return np.array(self.state, dtype=np.float32)

    def action_vector(self) -> np.ndarray:
        return np.array(self.action, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class EpisodeHeader:
    """What is known about an episode when it begins."""

    id: str
    robot: str
    behaviour_policy: str
    began_ns: int
    object_set: str = ""
    permit_id: str = ""
    task: str = GRASPING.name
    seed: int | None = None  # determines all of its player's random draws; None if unknown

    def __post_init__(self) -> None:
        check_name("episode id", self.id)
        check_name("robot", self.robot)
        check_stamp(f"episode {self.id}: beginning", self.began_ns)
        for text in (self.behaviour_policy, self.object_set, self.permit_id):
            check_text(f"episode {self.id}", text)
        find_task(self.task, where=f"episode {self.id}")
        if self.seed is not None and not 0 <= self.seed < MAX_SEED:
            raise EpisodeError(f"episode {self.id}: seed is {self.seed}, expected from 0 to below {MAX_SEED}")


@dataclass(frozen=True, slots=True)
class Episode:
    """One attempt from first frame to last action."""

    id: str
    robot: str
    behaviour_policy: str
    steps: tuple[Step, ...]
    label: Label = Label()
    object_set: str = ""
    permit_id: str = ""
    task: str = GRASPING.name
    seed: int | None = None  # determines all of its player's random draws; None if unknown

    def __post_init__(self) -> None:
        if not self.steps:
            raise EpisodeError(f"episode {self.id}: has no steps, expected at least one")
        stamps = [step.frame.stamp_ns for step in self.steps]
        for index, (before, after) in enumerate(itertools.pairwise(stamps), start=1):
            if after <= before:
                raise EpisodeError(
                    f"episode {self.id}: frame of step {index} is at {after} ns, expected after {before} ns"
                )
        for index, step in enumerate(self.steps[:-1]):
            if step.is_last:
                raise EpisodeError(
                    f"episode {self.id}: step {index} terminates, but {len(self.steps)} steps follow in all"
                )

    @classmethod
    def from_header(cls, header: EpisodeHeader, steps: tuple[Step, ...], label: Label) -> Episode:
        """The episode that began with this header."""
        return cls(
            id=header.id,
            robot=header.robot,
            behaviour_policy=header.behaviour_policy,
            steps=steps,
            label=label,
            object_set=header.object_set,
            permit_id=header.permit_id,
            task=header.task,
            seed=header.seed,
        )

    @property
    def started_ns(self) -> int:
        return self.steps[0].frame.stamp_ns

    @property
    def header(self) -> EpisodeHeader:
        """The header it would have begun with, at its first frame."""
        return EpisodeHeader(
            id=self.id,
            robot=self.robot,
            behaviour_policy=self.behaviour_policy,
            began_ns=self.started_ns,
            object_set=self.object_set,
            permit_id=self.permit_id,
            task=self.task,
            seed=self.seed,
        )

    def actions(self) -> np.ndarray:
        """Actions as chosen, (T, A)."""
        return np.stack([step.action_vector() for step in self.steps])

    def states(self) -> np.ndarray:
        """The state besides the images, (T, S)."""
        return np.stack([step.state_vector() for step in self.steps])


def _show(numbers: tuple[float, ...]) -> str:
    return "  ".join(f"{number:+.3g}" for number in numbers)


def check_name(what: str, name: str) -> None:
    """Check a name of an episode, robot or tag, which will be used as a file name."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise EpisodeError(
            f"{what}: got {name!r}, expected up to 120 letters, digits, '_', '-' or '.', not beginning with '-' or '.'"
        )


def check_stamp(what: str, stamp_ns: int) -> None:
    if not 0 <= stamp_ns < MAX_STAMP_NS:
        raise EpisodeError(f"{what} is at {stamp_ns} ns, expected from 0 to below {MAX_STAMP_NS}")


def check_text(what: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise EpisodeError(f"{what}: text {text!r} cannot be written as UTF-8") from None
