"""TaskStep messages: a step of any task as numbers in the task's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opc_ros.episode import EpisodeHeader, Frame, PlainStep, Step
from opc_ros.store import schemas
from opc_ros.store.cdr import Bytes, CdrReader, CdrWriter
from opc_ros.task import find_task


@dataclass(frozen=True, slots=True)
class TaskStepMessage:
    """A step of any task without its image."""

    stamp_ns: int
    robot: str
    episode_id: str
    index: int
    state: tuple[float, ...]
    action: tuple[float, ...]
    sent: tuple[float, ...] | None
    is_last: bool

    def with_frame(self, frame: Frame) -> PlainStep:
        return PlainStep(frame, self.action, self.state, self.sent, self.is_last)


class TaskStepCodec:
    """Checks numbers against the task when writing and reading; what does not fit is refused."""

    message_type = schemas.TASK_STEP
    topic = "task/step"

    def __init__(self, header: EpisodeHeader) -> None:
        self._header = header
        self._task = find_task(header.task, where=f"episode {header.id}")

    def encode(self, step: Step, index: int) -> bytes:
        where = f"episode {self._header.id}: step {index}"
        if isinstance(step, PlainStep):
            state, action, sent = step.state, step.action, step.sent
        else:
            state, action, sent = tuple(step.state_vector().tolist()), tuple(step.action_vector().tolist()), None
        self._task.check_state(state, where=where)
        self._task.check_action(action, where=where)
        writer = CdrWriter()
        writer.header(step.frame.stamp_ns)
        writer.string(self._header.robot)
        writer.string(self._header.id)
        writer.uint32(index)
        writer.float64s(state)
        writer.float64s(action)
        writer.boolean(sent is not None)
        writer.float64s(action if sent is None else sent)
        writer.boolean(step.is_last)
        return writer.finish()

    def decode(self, data: Bytes) -> TaskStepMessage:
        reader = CdrReader(data)
        stamp_ns, _ = reader.header()
        robot, episode_id, index = reader.string(), reader.string(), reader.uint32()
        state, action = reader.float64s(), reader.float64s()
        is_clamped, sent = reader.boolean(), reader.float64s()
        is_last = reader.boolean()
        reader.finish()
        self._task.check_state(state, where=f"step {index}")
        self._task.check_action(action, where=f"step {index}")
        return TaskStepMessage(stamp_ns, robot, episode_id, index, state, action, sent if is_clamped else None, is_last)

    def from_fields(self, message: Any) -> TaskStepMessage:
        """Build a step from a message that was read by the definition in its own file."""
        return TaskStepMessage(
            stamp_ns=int(message.header.stamp.sec) * 1_000_000_000 + int(message.header.stamp.nanosec),
            robot=message.robot,
            episode_id=message.episode_id,
            index=message.index,
            state=tuple(message.state),
            action=tuple(message.action),
            sent=tuple(message.sent) if message.is_clamped else None,
            is_last=bool(message.is_last),
        )
