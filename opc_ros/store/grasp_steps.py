"""GraspStep messages: one fixed layout for each episode, packed and unpacked in a single call."""

from __future__ import annotations

import functools
import math
import re
import struct
from dataclasses import dataclass
from typing import Any

from opc_ros.episode import EpisodeHeader, Frame, Step
from opc_ros.errors import EpisodeError
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.store import schemas
from opc_ros.store.cdr import PREAMBLE, Bytes, CdrError

BASE_FRAME = "base"


@dataclass(frozen=True, slots=True)
class GraspStepMessage:
    """A grasp step without its image."""

    stamp_ns: int
    robot: str
    episode_id: str
    index: int
    tool: ToolState
    action: GraspAction
    sent: GraspAction | None

    def with_frame(self, frame: Frame) -> GraspStep:
        return GraspStep(frame=frame, tool=self.tool, action=self.action, sent=self.sent)


class StepLayout:
    """The byte layout of an episode's GraspSteps, fixed because their strings are the same throughout the episode.

    Otherwise each step would take about ninety small reads and writes.
    """

    def __init__(self, robot: str, episode_id: str) -> None:
        self._robot = robot
        self._episode_id = episode_id
        self._header = _text(BASE_FRAME)
        self._names = (*_text(robot), *_text(episode_id))
        header = ("i", "I", *_text_codes(BASE_FRAME))
        who = (*_text_codes(robot), *_text_codes(episode_id), "I")
        action = (*header, *who, "i", "I", *("d" * 5), *("B" * 3))
        self._form = _compile((*header, *who, *header, *("d" * 5), *action, "B", *action))

    def encode(self, step: GraspStep, index: int) -> bytes:
        header = (*divmod(step.frame.stamp_ns, 1_000_000_000), *self._header)
        who = (*self._names, index)
        tool = step.tool
        is_clamped = step.sent is not None and step.sent != step.action
        return PREAMBLE + self._form.pack(
            *header,
            *who,
            *header,
            *(tool.x_m, tool.y_m, tool.z_m, tool.yaw_rad, tool.aperture_m),
            *header,
            *who,
            *header[:2],
            *_action_numbers(step.action),
            is_clamped,
            *header,
            *who,
            *header[:2],
            *_action_numbers(step.sent or step.action),
        )

    def decode(self, data: Bytes) -> GraspStepMessage:
        if len(data) != len(PREAMBLE) + self._form.size or data[: len(PREAMBLE)] != PREAMBLE:
            raise CdrError(f"step has {len(data)} bytes, expected {len(PREAMBLE) + self._form.size} of this episode")
        values = self._form.unpack_from(data, len(PREAMBLE))
        header, who = values[0:4], values[4:9]
        action, is_clamped, sent = values[18:37], values[37], values[38:57]
        copies = (values[9:13], action[0:4], sent[0:4], header[:2] + self._header)
        if any(copy != header for copy in copies) or header[0] < 0 or header[1] >= 1_000_000_000:
            raise CdrError(f"step has headers {header} and {copies}, expected one valid stamp in frame {BASE_FRAME!r}")
        if who[:4] != self._names or action[4:9] != who or sent[4:9] != who:
            raise CdrError(f"step is of {who}, {action[4:9]} and {sent[4:9]}, expected of {self._names}")
        if action[9:11] != header[:2] or sent[9:11] != header[:2]:
            raise CdrError(f"step {who[4]}: its action was chosen on another frame")
        if is_clamped > 1:
            raise CdrError(f"step {who[4]}: flag is {is_clamped}, expected 0 or 1")
        tool = values[13:18]
        if not all(map(math.isfinite, tool)):
            raise CdrError(f"step {who[4]}: tool is at {tool}, expected finite numbers")
        return GraspStepMessage(
            stamp_ns=header[0] * 1_000_000_000 + header[1],
            robot=self._robot,
            episode_id=self._episode_id,
            index=who[4],
            tool=ToolState(*tool),
            action=_to_action(action[11:19]),
            sent=_to_action(sent[11:19]) if is_clamped else None,
        )


class GraspStepCodec:
    """Steps of the grasping task, as the message that arms publish."""

    message_type = schemas.GRASP_STEP
    topic = "grasp/step"

    def __init__(self, header: EpisodeHeader) -> None:
        self._layout = step_layout(header.robot, header.id)

    @staticmethod
    def can_encode(step: Step) -> bool:
        return isinstance(step, GraspStep)

    def encode(self, step: Step, index: int) -> bytes:
        assert isinstance(step, GraspStep)
        return self._layout.encode(step, index)

    def decode(self, data: Bytes) -> GraspStepMessage:
        return self._layout.decode(data)

    def from_fields(self, message: Any) -> GraspStepMessage:
        """Build a step from a message that was read by the definition in its own file."""
        tool = message.tool
        numbers = (tool.position_m.x, tool.position_m.y, tool.position_m.z, tool.yaw_rad, tool.aperture_m)
        if not all(map(math.isfinite, numbers)):
            raise CdrError(f"step {message.index}: tool is at {numbers}, expected finite numbers")
        return GraspStepMessage(
            stamp_ns=int(message.header.stamp.sec) * 1_000_000_000 + int(message.header.stamp.nanosec),
            robot=message.robot,
            episode_id=message.episode_id,
            index=message.index,
            tool=ToolState(*numbers),
            action=_from_fields(message.action),
            sent=_from_fields(message.sent) if message.is_clamped else None,
        )


@functools.lru_cache(maxsize=64)
def step_layout(robot: str, episode_id: str) -> StepLayout:
    return StepLayout(robot, episode_id)


def _text(value: str) -> tuple[int, bytes]:
    data = value.encode("utf-8") + b"\x00"
    return len(data), data


def _text_codes(value: str) -> tuple[str, str]:
    return "I", f"{_text(value)[0]}s"


@functools.lru_cache(maxsize=64)  # ids of the same length share a layout
def _compile(codes: tuple[str, ...]) -> struct.Struct:
    """A struct with CDR's alignment: each number to its own size, counted from the end of the preamble."""
    form, offset = "<", 0
    for code in codes:
        size = struct.calcsize(f"<{code}")
        padding = 0 if re.fullmatch(r"\d+s", code) else -offset % size
        form += f"{padding}x{code}"
        offset += padding + size
    return struct.Struct(form)


def _action_numbers(action: GraspAction) -> tuple[float, ...]:
    return (
        *action.displacement_m,
        math.sin(action.rotation_rad),
        math.cos(action.rotation_rad),
        action.open_gripper,
        action.close_gripper,
        action.terminate,
    )


def _to_action(numbers: tuple[float, ...]) -> GraspAction:
    x, y, z, sin, cos, *flags = numbers
    if max(flags) > 1:
        raise CdrError(f"action has flags {flags}, expected 0 or 1")
    try:
        return GraspAction((x, y, z), math.atan2(sin, cos), *map(bool, flags))
    except EpisodeError as error:
        raise CdrError(str(error)) from error


def _from_fields(message: Any) -> GraspAction:
    moved = message.displacement_m
    return GraspAction(
        displacement_m=(moved.x, moved.y, moved.z),
        rotation_rad=math.atan2(message.rotation_sin, message.rotation_cos),
        open_gripper=bool(message.open_gripper),
        close_gripper=bool(message.close_gripper),
        terminate=bool(message.terminate),
    )
