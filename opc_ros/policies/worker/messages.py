"""What goes over the small socket between a candidate's process and whoever asks it; the large things are shared."""

from __future__ import annotations

import struct
from dataclasses import dataclass

LOAD, ASK, DECIDE = 0, 1, 2
MAX_TEXT = 400
MAX_ANSWER_BYTES = 4 * MAX_TEXT + 1

_REQUEST = struct.Struct("<BIQI")
_SPAWN = struct.Struct("<IIIQIi?")


@dataclass(frozen=True, slots=True)
class Spawn:
    """A process is wanted for a candidate of so many bytes of manifest, whose images have this size."""

    manifest_bytes: int
    image_size: tuple[int, int]
    memory_bytes: int
    cpu_s: int
    niceness: int
    allow_code: bool

    def pack(self) -> bytes:
        return _SPAWN.pack(
            self.manifest_bytes, *self.image_size, self.memory_bytes, self.cpu_s, self.niceness, self.allow_code
        )

    @classmethod
    def unpack(cls, data: bytes) -> Spawn:
        manifest, height, width, memory, cpu, niceness, allow_code = _SPAWN.unpack(data)
        return cls(manifest, (height, width), memory, cpu, niceness, allow_code)


@dataclass(frozen=True, slots=True)
class Request:
    """Load, ask about actions, or decide on so many rows in the shared memory."""

    kind: int
    rows: int = 0
    seed: int = 0
    step: int = 0  # of the first row

    def pack(self) -> bytes:
        return _REQUEST.pack(self.kind, self.rows, self.seed, self.step)

    @classmethod
    def unpack(cls, data: bytes) -> Request:
        return cls(*_REQUEST.unpack(data))


@dataclass(frozen=True, slots=True)
class Answer:
    """Done, or what went wrong; it comes from a process that may say anything."""

    is_done: bool
    text: str = ""

    def pack(self) -> bytes:
        return bytes([self.is_done]) + " ".join(self.text.split())[:MAX_TEXT].encode("utf-8", "replace")

    @classmethod
    def unpack(cls, data: bytes) -> Answer:
        return cls(data[0] == 1, " ".join(data[1:].decode("utf-8", "replace").split())[:MAX_TEXT])
