"""The validation store as the destination of a recorder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opc_ros.episode import EpisodeHeader, Label, WireMessage
from opc_ros.grasp import GraspStep
from opc_ros.recording.sink import Saved
from opc_ros.store import EpisodeWriter, Store


class StoreSink:
    """An EpisodeSink that writes to a store."""

    def __init__(self, store: Store, topics: Mapping[str, str] | None = None) -> None:
        """`topics` gives the topic name for each message type."""
        self._store = store
        self._topics = topics

    def begin(self, start: EpisodeHeader) -> StoreWriter:
        return StoreWriter(self._store.begin(start, self._topics))

    def label(self, episode_id: str, label: Label, note: str, signature: str = "") -> int:
        return self._store.label(episode_id, label, note=note, signature=signature)

    def unlabelled(self) -> Iterator[str]:
        for episode in self._store.episodes(on_damage=lambda error: None):
            if not episode.is_labelled and not episode.label.is_excluded:
                yield episode.id


class StoreWriter:
    """One episode being written to the store."""

    def __init__(self, writer: EpisodeWriter) -> None:
        self._writer = writer

    def add_step(self, step: GraspStep) -> None:
        self._writer.add_step(step)

    def add_wire_message(self, message: WireMessage) -> None:
        self._writer.add_wire_message(message)

    def commit(self, label: Label, health: Sequence[str]) -> Saved:
        committed = self._writer.commit(label, health=tuple(health))
        return Saved(sha256=committed.file_sha256, file_bytes=committed.file_bytes)

    def quarantine(self, reason: str, health: Sequence[str]) -> None:
        self._writer.quarantine(reason, health=tuple(health))

    def discard(self) -> None:
        self._writer.discard()
