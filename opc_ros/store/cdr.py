"""Plain little-endian CDR, the encoding in which ROS 2 messages are sent and stored."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

PREAMBLE = b"\x00\x01\x00\x00"  # plain CDR, little-endian
_START = len(PREAMBLE)  # alignment counts from the end of the preamble

_FORMATS = {code: struct.Struct(f"<{code}") for code in "BiIqd"}
MAX_NUMBERS = 4096  # in a state or an action
_SIZES = {code: form.size for code, form in _FORMATS.items()}


Bytes = bytes | memoryview


class CdrError(ValueError):
    """Bytes that do not contain the expected message."""


class CdrWriter:
    """Appends fields in the order of a message definition."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray(PREAMBLE)

    def uint8(self, value: int) -> None:
        self._buffer.append(value)

    def boolean(self, value: bool) -> None:
        self._buffer.append(1 if value else 0)

    def uint32(self, value: int) -> None:
        self._pack("I", value)

    def int64(self, value: int) -> None:
        self._pack("q", value)

    def float64s(self, values: Sequence[float]) -> None:
        """A field of type float64[]; an empty array is not aligned either."""
        self._pack("I", len(values))
        for value in values:
            self._pack("d", value)

    def string(self, value: str) -> None:
        data = value.encode("utf-8")
        self._pack("I", len(data) + 1)
        self._buffer += data
        self._buffer.append(0)

    def time(self, stamp_ns: int) -> None:
        seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
        self._pack("i", seconds)
        self._pack("I", nanoseconds)

    def header(self, stamp_ns: int, frame_id: str = "") -> None:
        """A std_msgs/Header."""
        self.time(stamp_ns)
        self.string(frame_id)

    def finish(self) -> bytes:
        """The complete message."""
        return bytes(self._buffer)

    def finish_with(self, blob: bytes) -> tuple[bytes, bytes]:
        """The message in two pieces; `blob` becomes a last field of type uint8[] and is not copied."""
        self._pack("I", len(blob))
        return bytes(self._buffer), blob

    def _pack(self, code: str, value: float) -> None:
        size = _SIZES[code]
        self._buffer += bytes(-(len(self._buffer) - _START) % size)
        self._buffer += _FORMATS[code].pack(value)


class CdrReader:
    """Reads fields in the order of a message definition; short or malformed bytes raise CdrError."""

    __slots__ = ("_data", "_offset")

    def __init__(self, data: Bytes) -> None:
        if data[:_START] != PREAMBLE:
            raise CdrError(f"message begins with {bytes(data[:_START]).hex() or 'nothing'}, expected {PREAMBLE.hex()}")
        self._data = data
        self._offset = _START

    def uint8(self) -> int:
        return int(self._unpack("B"))

    def boolean(self) -> bool:
        value = self.uint8()
        if value > 1:
            raise CdrError(f"flag is {value}, expected 0 or 1")
        return value == 1

    def uint32(self) -> int:
        return int(self._unpack("I"))

    def int64(self) -> int:
        return int(self._unpack("q"))

    def float64s(self) -> tuple[float, ...]:
        count = self.uint32()
        if count > MAX_NUMBERS:
            raise CdrError(f"list has {count} numbers, expected at most {MAX_NUMBERS}")
        values = tuple(self._unpack("d") for _ in range(count))
        if not all(map(math.isfinite, values)):
            raise CdrError(f"list is {values}, expected finite numbers")
        return values

    def string(self) -> str:
        raw = self._take(self.uint32())
        if not raw:  # some writers encode the empty string like this
            return ""
        if raw[-1:] != b"\x00":
            raise CdrError("text does not end with a zero byte")
        try:
            return raw[:-1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise CdrError(f"text is not UTF-8 at byte {error.start}") from error

    def time(self) -> int:
        seconds = self._unpack("i")
        nanoseconds = self.uint32()
        if seconds < 0 or nanoseconds >= 1_000_000_000:
            raise CdrError(f"time is {seconds} s and {nanoseconds} ns, expected no negative and below 1e9 ns")
        return int(seconds * 1_000_000_000 + nanoseconds)

    def header(self) -> tuple[int, str]:
        return self.time(), self.string()

    def blob(self) -> bytes:
        """A field of type uint8[]."""
        return self._take(self.uint32())

    def finish(self) -> None:
        """Check that nothing follows the last field."""
        if self._offset != len(self._data):
            raise CdrError(f"message has {len(self._data)} bytes, expected {self._offset}")

    def _take(self, count: int) -> bytes:
        end = self._offset + count
        if end > len(self._data):
            raise CdrError(f"message ends at byte {len(self._data)}, expected at least {end}")
        taken = bytes(self._data[self._offset : end])
        self._offset = end
        return taken

    def _unpack(self, code: str) -> Any:
        size = _SIZES[code]
        begin = self._offset + (-(self._offset - _START) % size)
        if begin + size > len(self._data):
            raise CdrError(f"message ends at byte {len(self._data)}, expected at least {begin + size}")
        self._offset = begin + size
        return _FORMATS[code].unpack_from(self._data, begin)[0]
