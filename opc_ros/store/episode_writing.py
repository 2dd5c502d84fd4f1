"""Writing one episode, step by step, as an MCAP file of ROS 2 messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from mcap.writer import LIBRARY_IDENTIFIER

from opc_ros.episode import EpisodeHeader, Frame, Label, Step, WireMessage, check_stamp
from opc_ros.errors import EpisodeError
from opc_ros.store import messages, schemas
from opc_ros.store.cdr import PREAMBLE
from opc_ros.store.mcap_writing import McapWriter, PieceSink
from opc_ros.store.messages import UNLABELLED, EpisodeEvent, EventKind
from opc_ros.store.step_codecs import STEP_TOPICS, codec_for

FORMAT_VERSION = "1"
WIRE_FORMAT_VERSION = "2"  # contains messages beside the steps, which readers of version 1 do not expect
CHUNK_BYTES = 256 * 1024  # a crash costs at most the last chunk
METADATA_NAME = "opc_ros.episode"
LIBRARY = f"opc_ros {LIBRARY_IDENTIFIER}"

_MAGIC = {"jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n"}


class EpisodeFileWriter:
    """Messages of one episode in order: BEGIN, then frame and step for each step, then END and label."""

    def __init__(self, sink: PieceSink, header: EpisodeHeader, topics: Mapping[str, str] | None = None) -> None:
        """`topics` gives the topic name for each message type; the default is the robot's usual names."""
        self._header = header
        self._topics = {**usual_topics(header.robot), **(topics or {})}
        self._has_wire_messages = False
        self._steps = 0
        self._last_stamp_ns = -1
        self._is_terminated = False
        self._channels: dict[str, int] = {}
        self._writer = McapWriter(sink, chunk_bytes=CHUNK_BYTES, profile="ros2", library=LIBRARY)
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
        """Timestamp of the newest frame, or the episode's beginning if there is none yet."""
        return self._last_stamp_ns if self._steps else self._header.began_ns

    def add_step(self, step: Step) -> None:
        frame = step.frame
        check_frame(frame, where=f"episode {self._header.id}: step {self._steps}")
        self._check_order(frame)
        image = messages.encode_frame(frame)
        codec = codec_for(self._header, step)
        data = codec.encode(step, self._steps)
        is_compressed = frame.encoding in messages.COMPRESSED_ENCODINGS
        self._add(schemas.COMPRESSED_IMAGE if is_compressed else schemas.IMAGE, image, frame.stamp_ns, self._steps)
        self._add(codec.message_type, (data,), frame.stamp_ns, self._steps)
        self._steps += 1
        self._last_stamp_ns = frame.stamp_ns
        self._is_terminated = step.is_last

    def add_wire_message(self, message: WireMessage) -> None:
        """Keep a message beside the steps; one older than the episode gets the timestamp of its beginning."""
        where = f"episode {self._header.id}: {message.type}"
        if message.type not in schemas.WIRE_TYPES:
            raise EpisodeError(f"{where}: expected one of {', '.join(schemas.WIRE_TYPES)}")
        check_stamp(where, message.stamp_ns)
        if message.data[: len(PREAMBLE)] != PREAMBLE:
            raise EpisodeError(f"{where}: begins with {message.data[:4].hex()}, expected little-endian CDR")
        self._has_wire_messages = True
        logged_ns = max(message.stamp_ns, self._header.began_ns)
        self._add(message.type, (bytes(message.data),), logged_ns, 0, published_ns=message.stamp_ns)

    def finish(self, label: Label, *, ended_ns: int, health: tuple[str, ...]) -> None:
        self._event(self._closing(EventKind.END, ended_ns, label=label))
        data = messages.encode_label(label, episode_id=self._header.id, stamp_ns=ended_ns)
        self._add(schemas.LABEL, (data,), ended_ns, 0)
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
        self._add(schemas.EPISODE_EVENT, (messages.encode_event(event),), event.stamp_ns, int(event.kind))

    def _add(
        self, kind: str, data: tuple[bytes, ...], stamp_ns: int, sequence: int, *, published_ns: int | None = None
    ) -> None:
        if kind not in self._channels:
            schema_id = self._writer.register_schema(kind, "ros2msg", schemas.schema(kind))
            self._channels[kind] = self._writer.register_channel(self._topics[kind], "cdr", schema_id)
        published_ns = stamp_ns if published_ns is None else published_ns
        self._writer.add_message(self._channels[kind], stamp_ns, data, published_ns, sequence)

    def _close(self, health: tuple[str, ...]) -> None:
        version = WIRE_FORMAT_VERSION if self._has_wire_messages else FORMAT_VERSION
        self._writer.add_metadata(
            METADATA_NAME, {"format_version": version, "health": json.dumps(health, ensure_ascii=False)}
        )
        self._writer.finish()


def usual_topics(robot: str) -> dict[str, str]:
    """Topic names by message type, as the robot's nodes use them by default."""
    name = re.sub(r"\W", "_", robot, flags=re.ASCII)
    namespace = f"robot_{name}" if name[0].isdigit() else name
    return {
        schemas.COMPRESSED_IMAGE: f"/{namespace}/camera/image/compressed",
        schemas.IMAGE: f"/{namespace}/camera/image",
        **{message_type: f"/{namespace}/{topic}" for message_type, topic in STEP_TOPICS.items()},
        schemas.EPISODE_EVENT: f"/{namespace}/episode/event",
        schemas.LABEL: f"/{namespace}/episode/label",
        schemas.CAMERA_INFO: f"/{namespace}/camera/camera_info",
        schemas.JOINT_STATE: f"/{namespace}/joint_states",
        schemas.TF: "/tf_static",
    }


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
