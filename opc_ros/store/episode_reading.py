"""Reading one episode back from its MCAP file, strictly."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Header, Metadata, Schema

from opc_ros.documents import parse_json
from opc_ros.episode import EpisodeHeader, Frame, Label, Step
from opc_ros.errors import EpisodeDamaged, EpisodeError, StoreError
from opc_ros.store import schemas
from opc_ros.store.episode_writing import FORMAT_VERSION, METADATA_NAME, WIRE_FORMAT_VERSION
from opc_ros.store.mcap_writing import MAGIC
from opc_ros.store.messages import DECODERS, Decoder, EpisodeEvent, EventKind
from opc_ros.store.older_messages import decoder_for
from opc_ros.store.step_codecs import STEP_TYPES, StepMessage, codec_of

_RECORD = struct.Struct("<BQ")  # opcode, length
_CHUNK_HEAD = struct.Struct("<QQQII")  # first and last time, size, checksum, length of the compression's name
_LENGTH = struct.Struct("<Q")
_CHANNEL_ID = struct.Struct("<H")
_MESSAGE_HEAD = struct.calcsize("<HIQQ")  # channel, sequence, log time, publish time


@dataclass(slots=True)
class EpisodeContent:
    """What was found in an episode file so far."""

    header: EpisodeHeader | None = None
    steps: list[Step] = field(default_factory=list)
    label: Label | None = None
    ended_ns: int | None = None
    health: tuple[str, ...] = ()
    abort_reason: str | None = None


@dataclass(frozen=True, slots=True)
class WholeEpisode:
    """Everything that an episode file must contain."""

    header: EpisodeHeader
    steps: tuple[Step, ...]
    label: Label
    ended_ns: int
    health: tuple[str, ...]


def read_whole(data: bytes, *, where: str, are_crcs_checked: bool = True) -> WholeEpisode:
    """Read a finished episode; anything missing, duplicated or out of order raises EpisodeDamaged."""
    content, problem = salvage(data, are_crcs_checked=are_crcs_checked)
    if problem is not None:
        raise EpisodeDamaged(f"{where}: {problem}")
    if content.header is None:
        raise EpisodeDamaged(f"{where}: no BEGIN event")
    if content.abort_reason is not None:
        raise EpisodeDamaged(f"{where}: broken off: {content.abort_reason}")
    if content.ended_ns is None or content.label is None:
        raise EpisodeDamaged(f"{where}: no END event or no label after {len(content.steps)} steps")
    if not content.steps:
        raise EpisodeDamaged(f"{where}: no steps")
    return WholeEpisode(
        header=content.header,
        steps=tuple(content.steps),
        label=content.label,
        ended_ns=content.ended_ns,
        health=content.health,
    )


def salvage(data: bytes, *, are_crcs_checked: bool = True) -> tuple[EpisodeContent, str | None]:
    """What can be read before the first damage, and what the damage is; None if the file is intact."""
    assembler = _Assembler()
    try:
        for schema, payload in _iterate_messages(data, assembler, are_crcs_checked):
            assembler.take(schema, payload)
    except (StoreError, EpisodeError) as error:
        return assembler.content, str(error)
    except Exception as error:  # mcap raises whatever error its parser hits: struct.error, ValueError, MemoryError...
        detail = " ".join(str(error).split()) or type(error).__name__
        return assembler.content, f"not a whole MCAP file: {detail}"
    return assembler.content, assembler.find_dangling()


def _iterate_messages(
    data: bytes, assembler: _Assembler, are_crcs_checked: bool
) -> Iterator[tuple[Schema, memoryview]]:
    """Messages in file order, without copying: episodes are read back at every commit and every scoring."""
    view = memoryview(data)
    if view[: len(MAGIC)] != MAGIC:
        raise McapError(f"begins with {data[: len(MAGIC)].hex() or 'nothing'}, expected {MAGIC.hex()}")
    is_closed = len(view) > 2 * len(MAGIC) and view[-len(MAGIC) :] == MAGIC
    kinds: dict[int, Schema] = {}
    channels: dict[int, Schema] = {}
    opcode = 0
    for opcode, body in read_records(view[len(MAGIC) : -len(MAGIC) if is_closed else None]):
        if opcode == Opcode.CHUNK:
            for inner, content in read_records(_chunk_content(body, are_crcs_checked)):
                if inner == Opcode.MESSAGE:
                    yield channels[_CHANNEL_ID.unpack_from(content)[0]], content[_MESSAGE_HEAD:]
                else:
                    _learn(inner, content, kinds, channels)
        elif opcode == Opcode.HEADER and (profile := Header.read(stream_of(body)).profile) != "ros2":
            raise McapError(f"profile is {profile!r}, expected 'ros2'")
        elif opcode == Opcode.METADATA and (found := Metadata.read(stream_of(body))).name == METADATA_NAME:
            assembler.take_metadata(found.metadata)
    if not is_closed or opcode != Opcode.FOOTER:
        raise McapError("does not end as an MCAP file")


def read_records(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    offset = 0
    while offset < len(data):
        opcode, length = _RECORD.unpack_from(data, offset)
        begin, offset = offset + _RECORD.size, offset + _RECORD.size + length
        if offset > len(data):
            raise McapError(f"record of {length} bytes, but only {len(data) - begin} follow")
        yield opcode, data[begin:offset]


def _chunk_content(body: memoryview, are_crcs_checked: bool) -> memoryview:
    _, _, size, checksum, name_length = _CHUNK_HEAD.unpack_from(body)
    if name_length:
        raise McapError("chunk is compressed, expected as it was recorded")
    content = body[_CHUNK_HEAD.size + _LENGTH.size :]
    if not len(content) == size == _LENGTH.unpack_from(body, _CHUNK_HEAD.size)[0]:
        raise McapError(f"chunk holds {len(content)} bytes, expected {size}")
    if are_crcs_checked and zlib.crc32(content) != checksum:
        raise McapError("chunk does not match its checksum")
    return content


def _learn(opcode: int, content: memoryview, kinds: dict[int, Schema], channels: dict[int, Schema]) -> None:
    if opcode == Opcode.SCHEMA:
        schema = _read_schema(bytes(content))
        kinds[schema.id] = schema
    elif opcode == Opcode.CHANNEL:
        channel = _read_channel(bytes(content))
        channels[channel.id] = kinds[channel.schema_id]


@functools.lru_cache(maxsize=64)  # episodes of one version share them
def _read_schema(content: bytes) -> Schema:
    return Schema.read(stream_of(memoryview(content)))


@functools.lru_cache(maxsize=256)
def _read_channel(content: bytes) -> Channel:
    return Channel.read(stream_of(memoryview(content)))


def stream_of(content: memoryview) -> ReadDataStream:
    return ReadDataStream(io.BytesIO(content))


class _Assembler:
    """Reassembles messages into an episode, in the order they were written."""

    def __init__(self) -> None:
        self.content = EpisodeContent()
        self._frame: Frame | None = None
        self._decoders: dict[int, Decoder] = {}

    def take(self, schema: Schema, data: memoryview) -> None:
        if schema.name in schemas.WIRE_TYPES:
            return  # for other readers; scoring does not use it
        if schema.id not in self._decoders:
            self._decoders[schema.id] = self._choose_decoder(schema)
        message = self._decoders[schema.id](data)
        if isinstance(message, Frame):
            self._take_frame(message)
        elif isinstance(message, EpisodeEvent):
            self._take_event(message)
        elif isinstance(message, tuple):
            self._take_label(*message)
        else:
            self._take_step(cast(StepMessage, message))

    def _choose_decoder(self, schema: Schema) -> Decoder:
        if schema.name in DECODERS and schemas.is_current(schema.name, schema.data):
            return DECODERS[schema.name]
        if schema.name in STEP_TYPES and schemas.is_current(schema.name, schema.data):
            return codec_of(schema.name, self.content.header).decode
        return decoder_for(schema, self.content.header)

    def take_metadata(self, values: dict[str, str]) -> None:
        version_found = values.get("format_version")
        if version_found not in (FORMAT_VERSION, WIRE_FORMAT_VERSION):
            raise EpisodeDamaged(f"episode format version {version_found!r}, this opc_ros reads 1 and 2")
        health = parse_json(values.get("health", ""), where="health in its metadata", error=EpisodeDamaged)
        if not isinstance(health, list) or not all(isinstance(line, str) for line in health):
            raise EpisodeDamaged("health in its metadata is not a list of lines")
        self.content.health = tuple(health)

    def find_dangling(self) -> str | None:
        return None if self._frame is None else f"frame at {self._frame.stamp_ns} ns has no step"

    def _take_frame(self, frame: Frame) -> None:
        if self._frame is not None:
            raise EpisodeDamaged(f"frame at {self._frame.stamp_ns} ns has no step")
        self._frame = frame

    def _take_step(self, step: StepMessage) -> None:
        self._check_belongs(step.robot, step.episode_id)
        frame, self._frame = self._frame, None
        if frame is None or frame.stamp_ns != step.stamp_ns:
            raise EpisodeDamaged(f"step {step.index} at {step.stamp_ns} ns has no frame of its stamp")
        if step.index != len(self.content.steps) or self.content.ended_ns is not None:
            raise EpisodeDamaged(f"step {step.index} is out of order, expected step {len(self.content.steps)}")
        self.content.steps.append(step.with_frame(frame))

    def _take_event(self, event: EpisodeEvent) -> None:
        if event.kind is EventKind.BEGIN:
            if self.content.header is not None:
                raise EpisodeDamaged("begins twice")
            self.content.header = EpisodeHeader(
                id=event.episode_id,
                robot=event.robot,
                behaviour_policy=event.behaviour_policy,
                began_ns=event.stamp_ns,
                object_set=event.object_set,
                permit_id=event.permit_id,
                task=event.task,
                seed=event.seed,
            )
            return
        self._check_belongs(event.robot, event.episode_id)
        if self.content.ended_ns is not None:
            raise EpisodeDamaged("ends twice")
        if event.steps not in (0, len(self.content.steps)):
            raise EpisodeDamaged(f"has {len(self.content.steps)} steps, its end event says {event.steps}")
        self.content.ended_ns = event.stamp_ns
        self.content.abort_reason = event.reason if event.kind is EventKind.ABORT else None

    def _take_label(self, episode_id: str, label: Label) -> None:
        if self.content.header is None or episode_id != self.content.header.id or self.content.label is not None:
            raise EpisodeDamaged(f"label of episode {episode_id!r} does not belong here")
        self.content.label = label

    def _check_belongs(self, robot: str, episode_id: str) -> None:
        header = self.content.header
        if header is None or (header.robot, header.id) != (robot, episode_id):
            raise EpisodeDamaged(f"holds a message of episode {episode_id!r} of robot {robot!r}")
