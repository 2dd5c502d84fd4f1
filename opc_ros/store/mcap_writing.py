"""Writes MCAP files of uncompressed chunks, byte for byte as the mcap library does, but without copying the input.

A message's bytes pass straight to the kernel. The library copies each of them four times on the way, which for camera
images takes longer than writing them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mcap.opcode import Opcode

MAGIC = b"\x89MCAP0\r\n"

_RECORD = struct.Struct("<BQ")  # opcode, length
_MESSAGE = struct.Struct("<BQHIQQ")  # opcode, length, channel, sequence, log time, publish time
_CHUNK = struct.Struct("<BQQQQIIQ")  # opcode, length, first and last time, size, checksum, no compression, size
_CHUNK_INDEX = struct.Struct("<QQQQI")  # first and last time, start, length, size of the message index
_STATISTICS = struct.Struct("<QHIIIIQQI")
_FOOTER = struct.Struct("<BQQQ")  # opcode, length, start of the summary and of its offsets
_OFFSET = struct.Struct("<HQ")
_ENTRY = struct.Struct("<QQ")
_LENGTH = struct.Struct("<I")
_IDS = struct.Struct("<HH")


class PieceSink(Protocol):
    """Where a file's bytes go."""

    def writelines(self, pieces: Sequence[bytes], /) -> object: ...

    def tell(self) -> int: ...


@dataclass(slots=True)
class _OpenChunk:
    """What was added since the last chunk was written."""

    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    first_ns: int = 0
    last_ns: int = 0
    entries: dict[int, list[bytes]] = field(default_factory=dict)  # by channel: log time and offset of each message

    def add(self, *pieces: bytes) -> None:
        self.pieces += pieces
        self.size += sum(map(len, pieces))


class McapWriter:
    """Writes each chunk once it is full, and the summary at the end; the sink's owner syncs and closes it."""

    def __init__(self, sink: PieceSink, *, chunk_bytes: int, profile: str, library: str) -> None:
        self._sink = sink
        self._chunk_bytes = chunk_bytes
        self._chunk = _OpenChunk()
        self._schemas: list[bytes] = []  # serialised records
        self._channels: list[bytes] = []
        self._chunk_indexes: list[bytes] = []
        self._metadata_indexes: list[bytes] = []
        self._counts: dict[int, int] = {}  # messages by channel
        self._first_ns = 0
        self._last_ns = 0
        self._put(MAGIC, _record(Opcode.HEADER, _text(profile) + _text(library)))

    def register_schema(self, name: str, encoding: str, data: bytes) -> int:
        number = len(self._schemas) + 1
        content = b"".join((number.to_bytes(2, "little"), _text(name), _text(encoding), _sized(data)))
        self._schemas.append(_record(Opcode.SCHEMA, content))
        self._take(self._schemas[-1])
        return number

    def register_channel(self, topic: str, encoding: str, schema_id: int) -> int:
        number = len(self._channels) + 1
        content = b"".join((_IDS.pack(number, schema_id), _text(topic), _text(encoding), _sized(b"")))
        self._channels.append(_record(Opcode.CHANNEL, content))
        self._take(self._channels[-1])
        return number

    def add_message(
        self, channel_id: int, log_ns: int, data: Sequence[bytes], published_ns: int, sequence: int
    ) -> None:
        """Add a message; `data` holds its pieces, which are kept until they are written."""
        chunk = self._chunk
        is_first = not self._counts
        self._first_ns = log_ns if is_first else min(log_ns, self._first_ns)
        self._last_ns = max(log_ns, self._last_ns)
        self._counts[channel_id] = self._counts.get(channel_id, 0) + 1
        chunk.first_ns = min(log_ns, chunk.first_ns) if chunk.entries else log_ns
        chunk.last_ns = max(log_ns, chunk.last_ns)
        chunk.entries.setdefault(channel_id, []).append(_ENTRY.pack(log_ns, chunk.size))
        length = _MESSAGE.size - _RECORD.size + sum(map(len, data))
        self._take(_MESSAGE.pack(Opcode.MESSAGE, length, channel_id, sequence, log_ns, published_ns), *data)

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Write metadata between chunks, so ahead of messages that are still waiting."""
        start = self._sink.tell()
        pairs = b"".join(_text(key) + _text(value) for key, value in values.items())
        record = _record(Opcode.METADATA, _text(name) + _sized(pairs))
        self._metadata_indexes.append(
            _record(Opcode.METADATA_INDEX, _ENTRY.pack(start, len(record)) + _text(name)),
        )
        self._put(record)

    def finish(self) -> None:
        """Write the last chunk, and the summary that readers use as an index."""
        self._end_chunk()
        self._put(_record(Opcode.DATA_END, bytes(4)))  # no checksum of the whole file: each chunk has its own
        start = self._sink.tell()
        groups = {
            Opcode.SCHEMA: self._schemas,
            Opcode.CHANNEL: self._channels,
            Opcode.STATISTICS: [self._statistics()],
            Opcode.CHUNK_INDEX: self._chunk_indexes,
            Opcode.ATTACHMENT_INDEX: [],
            Opcode.METADATA_INDEX: self._metadata_indexes,
        }
        summary, offsets = bytearray(), bytearray()
        for opcode, records in groups.items():
            group = b"".join(records)
            place = opcode.to_bytes(1, "little") + _ENTRY.pack(start + len(summary), len(group))
            offsets += _record(Opcode.SUMMARY_OFFSET, place)
            summary += group
        footer = _FOOTER.pack(Opcode.FOOTER, _FOOTER.size - _RECORD.size + 4, start, start + len(summary))
        summary += offsets + footer
        self._put(bytes(summary), _LENGTH.pack(zlib.crc32(summary)), MAGIC)

    def _take(self, *pieces: bytes) -> None:
        self._chunk.add(*pieces)
        if self._chunk.size > self._chunk_bytes:
            self._end_chunk()

    def _end_chunk(self) -> None:
        chunk = self._chunk
        if not chunk.entries:
            return
        self._chunk = _OpenChunk()
        checksum = 0
        for piece in chunk.pieces:
            checksum = zlib.crc32(piece, checksum)
        length = _CHUNK.size - _RECORD.size + chunk.size
        times = (chunk.first_ns, chunk.last_ns)
        head = _CHUNK.pack(Opcode.CHUNK, length, *times, chunk.size, checksum, 0, chunk.size)
        start = self._sink.tell()
        index_start = start + _RECORD.size + length
        indexes, offsets = bytearray(), bytearray()
        for channel_id, entries in chunk.entries.items():
            offsets += _OFFSET.pack(channel_id, index_start + len(indexes))
            indexes += _record(Opcode.MESSAGE_INDEX, channel_id.to_bytes(2, "little") + _sized(b"".join(entries)))
        self._put(head, *chunk.pieces, bytes(indexes))
        content = b"".join(
            (
                _CHUNK_INDEX.pack(*times, start, index_start - start, len(offsets)),
                offsets,
                len(indexes).to_bytes(8, "little"),
                _text(""),
                _ENTRY.pack(chunk.size, chunk.size),
            )
        )
        self._chunk_indexes.append(_record(Opcode.CHUNK_INDEX, content))

    def _statistics(self) -> bytes:
        counts = b"".join(_OFFSET.pack(channel_id, count) for channel_id, count in self._counts.items())
        records = (len(self._schemas), len(self._channels), 0, len(self._metadata_indexes), len(self._chunk_indexes))
        times = (self._first_ns, self._last_ns)
        head = _STATISTICS.pack(sum(self._counts.values()), *records, *times, len(counts))
        return _record(Opcode.STATISTICS, head + counts)

    def _put(self, *pieces: bytes) -> None:
        self._sink.writelines(pieces)


def _record(opcode: Opcode, content: bytes) -> bytes:
    return _RECORD.pack(opcode, len(content)) + content


def _text(value: str) -> bytes:
    return _sized(value.encode("utf-8"))


def _sized(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content
