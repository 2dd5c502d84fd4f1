"""Where recorded episodes go: the protocol, and its fake, MemorySink."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opc_ros.episode import Episode, EpisodeHeader, Label, WireMessage
from opc_ros.errors import EpisodeNotFound, RecordingError
from opc_ros.grasp import GraspStep


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that was written, reopened and found intact."""

    sha256: str
    file_bytes: int


class SinkWriter(Protocol):
    """One episode on its way to disk; ended by exactly one of commit, quarantine and discard."""

    def add_step(self, step: GraspStep) -> None: ...

    def add_wire_message(self, message: WireMessage) -> None: ...

    def commit(self, label: Label, health: Sequence[str]) -> Saved: ...

    def quarantine(self, reason: str, health: Sequence[str]) -> None: ...

    def discard(self) -> None: ...


class EpisodeSink(Protocol):
    """Takes episodes, and labels for the episodes it has."""

    def begin(self, start: EpisodeHeader) -> SinkWriter: ...

    def label(self, episode_id: str, label: Label, note: str, signature: str = "") -> int:
        """Append a label, with what its labeller signed, if anything; returns its revision."""
        ...

    def unlabelled(self) -> Iterable[str]:
        """Episodes that still wait for a label."""
        ...


@dataclass(slots=True)
class MemorySink:
    """A fake that keeps episodes in memory."""

    committed: dict[str, Episode] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)  # id -> reason
    discarded: list[str] = field(default_factory=list)
    health: dict[str, tuple[str, ...]] = field(default_factory=dict)
    labels: dict[str, list[Label]] = field(default_factory=dict)
    wire_messages: dict[str, list[WireMessage]] = field(default_factory=dict)

    def begin(self, start: EpisodeHeader) -> SinkWriter:
        if start.id in self.committed:
            raise RecordingError(f"episode {start.id}: is already there")
        return _MemoryWriter(self, start)

    def label(self, episode_id: str, label: Label, note: str, signature: str = "") -> int:
        if episode_id not in self.committed:
            raise EpisodeNotFound(f"episode {episode_id}: not in the store")
        self.labels[episode_id].append(label)
        return len(self.labels[episode_id]) - 1

    def unlabelled(self) -> Iterable[str]:
        return [id for id, labels in self.labels.items() if labels[-1].is_success is None]


@dataclass(slots=True)
class _MemoryWriter:
    sink: MemorySink
    start: EpisodeHeader
    steps: list[GraspStep] = field(default_factory=list)

    def add_step(self, step: GraspStep) -> None:
        self.steps.append(step)

    def add_wire_message(self, message: WireMessage) -> None:
        self.sink.wire_messages.setdefault(self.start.id, []).append(message)

    def commit(self, label: Label, health: Sequence[str]) -> Saved:
        start = self.start
        self.sink.committed[start.id] = Episode.from_header(start, tuple(self.steps), label)
        self.sink.labels[start.id] = [label]
        self.sink.health[start.id] = tuple(health)
        return Saved(sha256="", file_bytes=sum(len(step.frame.data) for step in self.steps))

    def quarantine(self, reason: str, health: Sequence[str]) -> None:
        self.sink.quarantined[self.start.id] = reason
        self.sink.health[self.start.id] = tuple(health)

    def discard(self) -> None:
        self.sink.discarded.append(self.start.id)
