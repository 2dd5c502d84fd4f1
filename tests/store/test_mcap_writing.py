"""Files written without copies equal the mcap library's, to the last byte."""

from __future__ import annotations

import io
import random

import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from opc_ros.store.mcap_writing import McapWriter

CHUNK_BYTES = 2000


class Both:
    """Gives the library's writer and ours the same calls."""

    def __init__(self) -> None:
        self.library_file, self.own_file = io.BytesIO(), io.BytesIO()
        self._library = Writer(self.library_file, chunk_size=CHUNK_BYTES, compression=CompressionType.NONE)
        self._library.start(profile="ros2", library="who wrote it: é")
        self._own = McapWriter(self.own_file, chunk_bytes=CHUNK_BYTES, profile="ros2", library="who wrote it: é")

    def schema(self, name: str, data: bytes) -> int:
        number = self._library.register_schema(name, "ros2msg", data)
        assert self._own.register_schema(name, "ros2msg", data) == number
        return number

    def channel(self, topic: str, schema_id: int) -> int:
        number = self._library.register_channel(topic, "cdr", schema_id)
        assert self._own.register_channel(topic, "cdr", schema_id) == number
        return number

    def message(self, channel: int, log_ns: int, pieces: tuple[bytes, ...], published_ns: int, sequence: int) -> None:
        self._library.add_message(channel, log_ns, b"".join(pieces), published_ns, sequence)
        self._own.add_message(channel, log_ns, pieces, published_ns, sequence)

    def metadata(self, name: str, values: dict[str, str]) -> None:
        self._library.add_metadata(name, values)
        self._own.add_metadata(name, values)

    def finish(self) -> bytes:
        self._library.finish()
        self._own.finish()
        assert self.own_file.getvalue() == self.library_file.getvalue()
        return self.own_file.getvalue()


def test_a_file_without_messages_is_the_librarys() -> None:
    both = Both()
    both.channel("/a", both.schema("a/msg/A", b"int32 a\n"))
    both.finish()


def test_chunks_end_where_the_librarys_do() -> None:
    """A chunk ends after the record that makes it longer than 2000 bytes.

    Of messages of 400 bytes this is the sixth, or the fifth if a schema and a channel came first.
    """
    both = Both()
    channel = both.channel("/a", both.schema("a/msg/A", b""))
    for number in range(12):
        both.message(channel, 100 - number, (bytes(400 - 31),), number, number)
    data = both.finish()
    summary = make_reader(io.BytesIO(data)).get_summary()
    assert summary is not None
    assert summary.statistics is not None
    assert summary.statistics.chunk_count == 3
    assert (summary.statistics.message_start_time, summary.statistics.message_end_time) == (89, 100)


@pytest.mark.parametrize("seed", range(40))
def test_random_files_are_the_librarys(seed: int) -> None:
    """Schemas and channels come late, times go backwards, messages are empty, in pieces, or longer than a chunk."""
    draw = random.Random(seed)
    both = Both()
    channels = [both.channel("/first", both.schema("a/msg/First", draw.randbytes(50)))]
    for number in range(draw.randrange(60)):
        if draw.random() < 0.1:
            schema_id = both.schema(f"a/msg/Ä{number}", draw.randbytes(draw.randrange(3000)))
            channels.append(both.channel(f"/{number}", schema_id))
        if draw.random() < 0.05:
            both.metadata(f"note {number}", {"a": "ö" * draw.randrange(9), "": ""})
        pieces = tuple(draw.randbytes(draw.choice([0, 1, 30, 700, 5000])) for _ in range(draw.randrange(4)))
        both.message(draw.choice(channels), draw.randrange(2**63), pieces, draw.randrange(2**63), draw.randrange(2**32))
    both.metadata("end", {})
    data = both.finish()
    assert make_reader(io.BytesIO(data)).get_summary() is not None
