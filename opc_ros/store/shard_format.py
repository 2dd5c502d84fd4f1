"""The format of a shard: an MCAP file with one attachment for each episode, and a sealed index that commits it.

An attachment is an episode's file, byte for byte, so an episode has the same sha256 wherever it is, and any MCAP tool
can extract episodes. A shard is named by its own sha256; all of its episodes are of one robot and day.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

from mcap.opcode import Opcode
from mcap.records import Attachment
from mcap.writer import CompressionType, Writer

from opc_ros.episode import check_name
from opc_ros.errors import EpisodeError, StoreError
from opc_ros.store.episode_reading import read_records, stream_of
from opc_ros.store.episode_writing import LIBRARY
from opc_ros.store.layout import MCAP, Home
from opc_ros.store.mcap_writing import MAGIC
from opc_ros.store.sealed import decode_document, encode_document

KIND = "shard"
MEDIA_TYPE = "application/mcap"

_CRC_BYTES = 4
_SHA256 = re.compile(r"[0-9a-f]{64}")


class LooseEpisode(NamedTuple):
    """A committed episode to be packed."""

    episode_id: str
    file_sha256: str
    file_bytes: int
    began_ns: int


@dataclass(frozen=True, slots=True)
class PackedEpisode:
    """Which bytes of a shard are an episode's file."""

    id: str
    file_sha256: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What one shard contains; the document that commits it."""

    home: Home
    sha256: str  # of the shard, which is also its name
    size: int
    episodes: tuple[PackedEpisode, ...]  # in the order of the shard


class HashedFile:
    """A file that is hashed while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._position = 0

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self._hash.update(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def sha256(self) -> str:
        return self._hash.hexdigest()


class Sink(Protocol):
    """Where a shard's bytes go."""

    def write(self, data: bytes) -> int: ...

    def tell(self) -> int: ...


class ShardWriter:
    """Writes episodes to a shard, one after the other."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer = Writer(sink, compression=CompressionType.NONE)
        self._writer.start(library=LIBRARY)
        self.episodes: list[PackedEpisode] = []

    def add(self, episode_id: str, file_sha256: str, began_ns: int, data: bytes) -> None:
        self._writer.add_attachment(
            create_time=began_ns, log_time=began_ns, name=f"{episode_id}{MCAP}", media_type=MEDIA_TYPE, data=data
        )
        offset = self._sink.tell() - _CRC_BYTES - len(data)
        self.episodes.append(PackedEpisode(episode_id, file_sha256, offset, len(data)))

    def finish(self) -> None:
        self._writer.finish()


def encode_index(index: ShardIndex) -> bytes:
    rows = [[one.id, one.file_sha256, one.offset, one.length] for one in index.episodes]
    body = {"robot": index.home.robot, "day": index.home.day, "shard": index.sha256, "size": index.size}
    return encode_document(KIND, {**body, "episodes": rows})


def decode_index(data: bytes, *, where: str) -> ShardIndex:
    """Decode an index; raises StoreError unless it is exactly what was written and makes sense."""
    body = decode_document(data, KIND, where=where)
    kinds = {"robot": str, "day": str, "shard": str, "size": int, "episodes": list}
    if body.keys() != kinds.keys() or any(type(body[name]) is not kind for name, kind in kinds.items()):
        raise StoreError(f"{where}: no index of a shard: expected {', '.join(kinds)}")
    if _SHA256.fullmatch(body["shard"]) is None:
        raise StoreError(f"{where}: shard is {body['shard']!r:.100}, expected 64 lower-case hex digits")
    episodes = tuple(_check_row(row, body["size"], where) for row in body["episodes"])
    return ShardIndex(Home(body["robot"], body["day"]), body["shard"], body["size"], episodes)


def scan_shard(data: memoryview) -> list[tuple[str, int, int]]:
    """Name, offset and length of every attachment before the first damage, for rebuilding a lost index."""
    found: list[tuple[str, int, int]] = []
    if data[: len(MAGIC)] != MAGIC:
        return found
    offset = len(MAGIC)
    try:
        for opcode, body in read_records(data[len(MAGIC) :]):
            end = offset + 9 + len(body)
            if opcode == Opcode.ATTACHMENT:
                one = Attachment.read(stream_of(body))
                found.append((one.name.removesuffix(MCAP), end - _CRC_BYTES - len(one.data), len(one.data)))
            if opcode in (Opcode.DATA_END, Opcode.FOOTER):
                break
            offset = end
    except Exception:  # mcap raises whatever error its parser hits; everything before it is intact
        return found
    return found


def _check_row(row: Any, size: int, where: str) -> PackedEpisode:
    if not isinstance(row, list) or [type(value) for value in row] != [str, str, int, int]:
        raise StoreError(f"{where}: episode {row!r:.200}, expected id, sha256, offset, length")
    one = PackedEpisode(*row)
    try:
        check_name("episode", one.id)
    except EpisodeError as error:
        raise StoreError(f"{where}: {error}") from error
    if _SHA256.fullmatch(one.file_sha256) is None or one.length < 1 or not 0 < one.offset <= size - one.length:
        raise StoreError(f"{where}: episode {one.id} has an invalid sha256, offset or length")
    return one
