"""Messages on the socket between a candidate's process and its caller; large data is in shared memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

LOAD, ASK, DECIDE, COMPARE = 0, 1, 2, 3
MAX_TEXT = 400
MAX_ANSWER_BYTES = 4 * MAX_TEXT + 1

_REQUEST = struct.Struct("<BIQIQ")
_LENGTHS = struct.Struct("<QQ")
_SPAWN = struct.Struct("<IIIIIQIi??")


@dataclass(frozen=True, slots=True)
class Spawn:
    """A request for a process for this many candidates, with the sizes of their inputs."""

    candidates: int
    image_size: tuple[int, int]
    state_size: int
    action_size: int
    memory_bytes: int
    cpu_s: int
    niceness: int
    allow_code: bool
    is_coarse: bool = False  # networks of named architectures in bfloat16, for scoring only

    def pack(self) -> bytes:
        return _SPAWN.pack(
            self.candidates,
            *self.image_size,
            self.state_size,
            self.action_size,
            self.memory_bytes,
            self.cpu_s,
            self.niceness,
            self.allow_code,
            self.is_coarse,
        )

    @classmethod
    def unpack(cls, data: bytes) -> Spawn:
        candidates, height, width, *rest = _SPAWN.unpack(data)
        return cls(candidates, (height, width), *rest)


@dataclass(frozen=True, slots=True)
class Request:
    """One request, about this many rows of the shared memory.

    LOAD loads the candidates, ASK evaluates actions under some of them, DECIDE lets one choose actions, and COMPARE
    evaluates actions under one of them, all in the state of the first row.
    """

    kind: int
    rows: int = 0
    seed: int = 0
    step: int = 0  # of the first row
    members: int = 1  # a bit for each candidate in the process

    def pack(self) -> bytes:
        return _REQUEST.pack(self.kind, self.rows, self.seed, self.step, self.members)

    @property
    def member_numbers(self) -> tuple[int, ...]:
        return tuple(number for number in range(64) if self.members >> number & 1)

    @classmethod
    def unpack(cls, data: bytes) -> Request:
        return cls(*_REQUEST.unpack(data))


def join_parts(parts: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A table of lengths, then manifest and artifact of each candidate."""
    table = b"".join(_LENGTHS.pack(len(manifest), len(artifact)) for manifest, artifact in parts)
    return b"".join((table, *(data for part in parts for data in part)))


def split_parts(data: bytes, candidates: int) -> list[tuple[bytes, bytes]]:
    parts, start = [], candidates * _LENGTHS.size
    for manifest, artifact in _LENGTHS.iter_unpack(data[:start]):
        parts.append((data[start : start + manifest], data[start + manifest : start + manifest + artifact]))
        start += manifest + artifact
    return parts


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
