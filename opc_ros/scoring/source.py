"""Where the scorer gets episodes from, without knowing about stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from opc_ros.episode import Episode
from opc_ros.errors import EpisodeNotFound, ScoreError


@dataclass(frozen=True, slots=True)
class EpisodeRef:
    """One episode as a snapshot pins it: these bytes, with this outcome."""

    id: str
    file_sha256: str
    is_success: bool
    robot: str = ""
    label_revision: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Its key in the Q cache."""
        return self.id, self.file_sha256


class EpisodeSource(Protocol):
    """A fixed set of labelled episodes; a source that can be pickled can be read on many machines."""

    @property
    def snapshot_id(self) -> str:
        """The sha256 that names this set."""
        ...

    @property
    def refs(self) -> tuple[EpisodeRef, ...]:
        """All episodes of the set, always in the same order."""
        ...

    def read(self, ref: EpisodeRef) -> Episode:
        """One episode, after checking its bytes."""
        ...


class PinnedEpisode(Protocol):
    """What a snapshot entry must provide; the store's own entries do."""

    @property
    def episode_id(self) -> str: ...

    @property
    def robot(self) -> str: ...

    @property
    def file_sha256(self) -> str: ...

    @property
    def label_revision(self) -> int: ...

    @property
    def is_success(self) -> bool: ...


Entry = TypeVar("Entry", bound=PinnedEpisode)


class SnapshotSource(Generic[Entry]):
    """The episodes of one snapshot, given its entries and a function that reads one of them."""

    def __init__(self, snapshot_id: str, entries: Iterable[Entry], read_entry: Callable[[Entry], Episode]) -> None:
        self.snapshot_id = snapshot_id
        self._entries = {entry.episode_id: entry for entry in entries}
        self._read_entry = read_entry
        self.refs = tuple(
            EpisodeRef(entry.episode_id, entry.file_sha256, entry.is_success, entry.robot, entry.label_revision)
            for entry in self._entries.values()
        )

    def read(self, ref: EpisodeRef) -> Episode:
        return self._read_entry(self._entries[ref.id])


class MemorySource:
    """A fake: labelled episodes held in memory."""

    def __init__(self, episodes: Iterable[Episode]) -> None:
        self._episodes = {episode.id: episode for episode in episodes}
        self.refs = tuple(_ref_of(episode) for episode in self._episodes.values())
        lines = [f"{ref.id} {ref.file_sha256} {ref.is_success}" for ref in self.refs]
        self.snapshot_id = hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def read(self, ref: EpisodeRef) -> Episode:
        if ref.id not in self._episodes:
            raise EpisodeNotFound(f"episode {ref.id}: not in this set")
        return self._episodes[ref.id]


def _ref_of(episode: Episode) -> EpisodeRef:
    if episode.label.is_success is None:
        raise ScoreError(f"episode {episode.id}: has no label, expected success or failure")
    digest = hashlib.sha256()
    for step in episode.steps:
        digest.update(step.frame.data)
        digest.update(step.state_vector().tobytes())
        digest.update(step.action_vector().tobytes())
    return EpisodeRef(
        id=episode.id,
        file_sha256=digest.hexdigest(),
        is_success=episode.label.is_success,
        robot=episode.robot,
    )
