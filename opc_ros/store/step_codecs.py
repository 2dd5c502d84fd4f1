"""How the steps of each task are stored in an episode file: as a message of the task's own, or as plain numbers."""

from __future__ import annotations

from typing import Any, Protocol

from opc_ros.episode import EpisodeHeader, Frame, Step
from opc_ros.errors import EpisodeDamaged
from opc_ros.store.cdr import Bytes
from opc_ros.store.grasp_steps import GraspStepCodec
from opc_ros.store.task_steps import TaskStepCodec
from opc_ros.task import GRASPING


class StepMessage(Protocol):
    """A step without its image."""

    @property
    def stamp_ns(self) -> int: ...

    @property
    def robot(self) -> str: ...

    @property
    def episode_id(self) -> str: ...

    @property
    def index(self) -> int: ...

    def with_frame(self, frame: Frame) -> Step: ...


class StepCodec(Protocol):
    """Encodes and decodes one message type, for one episode."""

    @property
    def message_type(self) -> str: ...

    @property
    def topic(self) -> str:
        """The topic below the robot's namespace."""
        ...

    def encode(self, step: Step, index: int) -> bytes: ...

    def decode(self, data: Bytes) -> StepMessage: ...

    def from_fields(self, message: Any) -> StepMessage:
        """Build a step from a message that was read by the definition in its own file."""
        ...


# Tasks whose steps have their own message; all others are stored as plain numbers.
_BY_TASK = {GRASPING.name: GraspStepCodec}
_BY_TYPE: dict[str, type[TaskStepCodec | GraspStepCodec]] = {
    TaskStepCodec.message_type: TaskStepCodec,
    **{codec.message_type: codec for codec in _BY_TASK.values()},
}
STEP_TYPES = tuple(_BY_TYPE)
STEP_TOPICS = {message_type: codec.topic for message_type, codec in _BY_TYPE.items()}


def codec_for(header: EpisodeHeader, step: Step) -> StepCodec:
    """The codec for writing a step of this episode."""
    own = _BY_TASK.get(header.task)
    return own(header) if own is not None and own.can_encode(step) else TaskStepCodec(header)


def codec_of(message_type: str, header: EpisodeHeader | None) -> StepCodec:
    """The codec for reading the steps found in this episode's file."""
    if header is None:
        raise EpisodeDamaged("has a step before its BEGIN event")
    kind = _BY_TYPE[message_type]
    if kind is not TaskStepCodec and kind is not _BY_TASK.get(header.task):
        raise EpisodeDamaged(f"has a step of type {message_type}, which no episode of {header.task} has")
    return kind(header)
