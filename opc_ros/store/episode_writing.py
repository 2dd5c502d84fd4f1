"""Writing one episode, step by step, as an MCAP file of ROS 2 messages."""

from __future__ import annotations

import json
import re
from typing import Protocol

from mcap.writer import LIBRARY_IDENTIFIER, CompressionType, Writer

from opc_ros.episode import EpisodeHeader, Frame, Label, Step, check_stamp
from opc_ros.errors import EpisodeError
from opc_ros.grasp import GraspStep
from opc_ros.store import messages, schemas
from opc_ros.store.messages import UNLABELLED, EpisodeEvent, EventKind
from opc_ros.store.step_layout import step_layout
from opc_ros.task import GRASPING, find_task

FORMAT_VERSION = "1"
CHUNK_BYTES = 256 * 1024  # a crash costs at most the last chunk
METADATA_NAME = "opc_ros.episode"
LIBRARY = f"opc_ros {LIBRARY_IDENTIFIER}"

_MAGIC = {"jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n"}


class Sink(Protocol):
    """Where an episode's bytes go."""

    def write(self, data: bytes) -> int: ...

    def tell(self) -> int: ...


class EpisodeFileWriter:
    """Messages of one episode, in order: BEGIN, then frame and step for each step, then END and label."""

    def __init__(self, sink: Sink, header: EpisodeHeader) -> None:
        self._header = header
        self._task = find_task(header.task, where=f"episode {header.id}")
        self._layout = step_layout(header.robot, header.id)
        self._steps = 0
        self._last_stamp_ns = -1
        self._is_terminated = False
        self._channels: dict[str, int] = {}
        self._writer = Writer(sink, chunk_size=CHUNK_BYTES, compression=CompressionType.NONE)
        self._writer.start(profile="ros2", library=LIBRARY)
        self._event(
            EpisodeEvent(
                stamp_ns=header.began_ns,
                robot=header.robot,
                episode_id=header.id,
                kind=EventKind.BEGIN,
                behaviour_policy=header.behaviour_policy,
                object_set=header.object_set,
                permit_id=header.permit_id,
                task=header.task,
                seed=header.seed,
            )
        )

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def last_stamp_ns(self) -> int:
        """Of the newest frame; the episode's beginning where there is none yet."""
        return self._last_stamp_ns if self._steps else self._header.began_ns

    def add_step(self, step: Step) -> None:
        frame = step.frame
        check_frame(frame, where=f"episode {self._header.id}: step {self._steps}")
        self._check_order(frame)
        image = messages.encode_frame(frame)
        kind, data = self._encode_step(step)
        is_compressed = frame.encoding in messages.COMPRESSED_ENCODINGS
        self._add(schemas.COMPRESSED_IMAGE if is_compressed else schemas.IMAGE, image, frame.stamp_ns, self._steps)
        self._add(kind, data, frame.stamp_ns, self._steps)
        self._steps += 1
        self._last_stamp_ns = frame.stamp_ns
        self._is_terminated = step.is_last

    def _encode_step(self, step: Step) -> tuple[str, bytes]:
        if isinstance(step, GraspStep) and self._task is GRASPING:
            return schemas.GRASP_STEP, self._layout.encode(step, self._steps)
        where = f"episode {self._header.id}: step {self._steps}"
        self._task.check_state(step.state_vector().tolist(), where=where)
        self._task.check_action(step.action_vector().tolist(), where=where)
        names = {"robot": self._header.robot, "episode_id": self._header.id}
        return schemas.TASK_STEP, messages.encode_task_step(step, **names, index=self._steps)

    def finish(self, label: Label, *, ended_ns: int, health: tuple[str, ...]) -> None:
        self._event(self._closing(EventKind.END, ended_ns, label=label))
        self._add(
            schemas.LABEL, messages.encode_label(label, episode_id=self._header.id, stamp_ns=ended_ns), ended_ns, 0
        )
        self._close(health)

    def abort(self, reason: str, *, ended_ns: int, health: tuple[str, ...]) -> None:
        self._event(self._closing(EventKind.ABORT, ended_ns, reason=reason))
        self._close(health)

    def _check_order(self, frame: Frame) -> None:
        where = f"episode {self._header.id}: step {self._steps}"
        if self._steps and frame.stamp_ns <= self._last_stamp_ns:
            raise EpisodeError(f"{where}: frame is at {frame.stamp_ns} ns, expected after {self._last_stamp_ns} ns")
        if self._is_terminated:
            raise EpisodeError(f"{where}: follows a step that terminates the episode")

    def _closing(self, kind: EventKind, stamp_ns: int, *, label: Label = UNLABELLED, reason: str = "") -> EpisodeEvent:
        return EpisodeEvent(
            stamp_ns=stamp_ns,
            robot=self._header.robot,
            episode_id=self._header.id,
            kind=kind,
            label=label,
            steps=self._steps,
            reason=reason,
        )

    def _event(self, event: EpisodeEvent) -> None:
        self._add(schemas.EPISODE_EVENT, messages.encode_event(event), event.stamp_ns, int(event.kind))

    def _add(self, kind: str, data: bytes, stamp_ns: int, sequence: int) -> None:
        if kind not in self._channels:
            schema_id = self._writer.register_schema(kind, "ros2msg", schemas.schema(kind))
            self._channels[kind] = self._writer.register_channel(topic_of(kind, self._header.robot), "cdr", schema_id)
        self._writer.add_message(self._channels[kind], stamp_ns, data, stamp_ns, sequence)

    def _close(self, health: tuple[str, ...]) -> None:
        self._writer.add_metadata(
            METADATA_NAME, {"format_version": FORMAT_VERSION, "health": json.dumps(health, ensure_ascii=False)}
        )
        self._writer.finish()


def topic_of(kind: str, robot: str) -> str:
    """Topic names as a recorder on that robot would have them."""
    name = re.sub(r"\W", "_", robot, flags=re.ASCII)
    namespace = f"robot_{name}" if name[0].isdigit() else name
    return {
        schemas.COMPRESSED_IMAGE: f"/{namespace}/camera/image/compressed",
        schemas.IMAGE: f"/{namespace}/camera/image",
        schemas.GRASP_STEP: f"/{namespace}/grasp/step",
        schemas.TASK_STEP: f"/{namespace}/task/step",
        schemas.EPISODE_EVENT: f"/{namespace}/episode/event",
        schemas.LABEL: f"/{namespace}/episode/label",
    }[kind]


def check_frame(frame: Frame, *, where: str) -> None:
    """Refuse an image that could not be read back."""
    check_stamp(f"{where}: frame", frame.stamp_ns)
    if frame.encoding in messages.COMPRESSED_ENCODINGS:
        magic = _MAGIC[frame.encoding]
        if not frame.data.startswith(magic):
            raise EpisodeError(
                f"{where}: {len(frame.data)} bytes begin with {frame.data[:3].hex() or 'nothing'}, "
                f"expected a {frame.encoding} image ({magic[:3].hex()})"
            )
        return
    if frame.encoding not in messages.BYTES_PER_PIXEL:
        known = ", ".join((*messages.COMPRESSED_ENCODINGS, *messages.BYTES_PER_PIXEL))
        raise EpisodeError(f"{where}: encoding {frame.encoding!r}, expected one of {known}")
    expected = frame.width * frame.height * messages.BYTES_PER_PIXEL[frame.encoding]
    if len(frame.data) != expected or expected == 0:
        raise EpisodeError(
            f"{where}: {len(frame.data)} bytes, expected {expected} for {frame.width}x{frame.height} {frame.encoding}"
        )
