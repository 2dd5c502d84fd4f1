"""Content-addressed lists of labelled episodes: what a score names, and can be computed from again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from opc_ros.documents import canonical_json, parse_json
from opc_ros.durable import create_file, replace_file
from opc_ros.episode import LabelSource, check_name
from opc_ros.errors import SnapshotNotFound, StoreError
from opc_ros.store.layout import JSON, Layout, names_in
from opc_ros.store.records import CommittedEpisode

FORMAT = "opc_ros.snapshot"
VERSION = 1

_DIGEST_LENGTH = 64
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which episodes a snapshot takes; an empty field leaves its question open."""

    robots: tuple[str, ...] = ()
    since_ns: int | None = None  # begun at this time or later
    until_ns: int | None = None  # begun before this time
    object_sets: tuple[str, ...] = ()
    behaviour_policies: tuple[str, ...] = ()
    label_sources: tuple[LabelSource, ...] = ()

    def matches(self, episode: CommittedEpisode) -> bool:
        return (
            (not self.robots or episode.robot in self.robots)
            and (self.since_ns is None or episode.began_ns >= self.since_ns)
            and (self.until_ns is None or episode.began_ns < self.until_ns)
            and (not self.object_sets or episode.object_set in self.object_sets)
            and (not self.behaviour_policies or episode.behaviour_policy in self.behaviour_policies)
            and (not self.label_sources or episode.label.source in self.label_sources)
        )


EVERYTHING = Selection()


class SnapshotEntry(NamedTuple):
    """One episode as a snapshot pins it: these bytes, with this label."""

    episode_id: str
    robot: str
    file_sha256: str
    label_revision: int
    is_success: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A fixed set of episodes; its id is the sha256 of its canonical list."""

    id: str
    entries: tuple[SnapshotEntry, ...]  # in canonical order: by episode id

    @property
    def successes(self) -> int:
        return sum(entry.is_success for entry in self.entries)


def compose_snapshot(episodes: Iterable[CommittedEpisode], selection: Selection) -> tuple[Snapshot, bytes]:
    """The snapshot of all labelled episodes that match, and its file's bytes."""
    entries: list[SnapshotEntry] = []
    unlabelled = others = 0
    for episode in episodes:
        if not selection.matches(episode):
            others += 1
        elif episode.label.is_success is None:
            unlabelled += 1
        else:
            entries.append(
                SnapshotEntry(
                    episode.id, episode.robot, episode.file_sha256, episode.label_revision, episode.label.is_success
                )
            )
    if not entries:
        raise StoreError(
            f"snapshot: no labelled episode is selected, expected at least one "
            f"({unlabelled} without label, {others} outside the selection)"
        )
    entries.sort()
    data = _encode(entries)
    return Snapshot(id=hashlib.sha256(data).hexdigest(), entries=tuple(entries)), data


def write_snapshot(layout: Layout, snapshot: Snapshot, data: bytes) -> None:
    """Equal content has the same name, so an existing file needs no second writing unless it was damaged."""
    path = _path(layout, snapshot.id)
    if not create_file(path, data) and path.read_bytes() != data:
        replace_file(path, data)


def write_tag(layout: Layout, tag: str, snapshot_id: str) -> None:
    check_name("tag", tag)
    if _is_digest_like(tag):
        raise StoreError(f"tag {tag!r} could be taken for the beginning of a digest; give it another letter")
    replace_file(layout.tags / tag, f"{snapshot_id}\n".encode())


def read_tag(layout: Layout, tag: str) -> str:
    path = layout.tags / tag
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotNotFound(f"tag {tag}: {path} cannot be read: {error}") from error
    if len(text) != _DIGEST_LENGTH or not _HEX.issuperset(text):
        raise SnapshotNotFound(f"tag {tag}: {path} holds {text[:80]!r}, expected a snapshot's 64 hex digits")
    return text


def read_snapshot(layout: Layout, snapshot_id: str) -> Snapshot:
    """Read one snapshot by its whole digest, and check that its bytes still have it."""
    path = _path(layout, snapshot_id)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SnapshotNotFound(f"snapshot {snapshot_id}: not in this store; `opc store snapshot` lists all") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != snapshot_id:
        raise StoreError(f"snapshot {snapshot_id}: its file has sha256 {found}, so it was changed or damaged")
    return Snapshot(id=snapshot_id, entries=_decode(data, where=f"snapshot {snapshot_id}"))


def resolve(layout: Layout, ref: str) -> str:
    """The digest that a digest, a unique beginning of one, or a tag stands for."""
    if ref in tag_names(layout):
        return read_tag(layout, ref)
    known = snapshot_ids(layout)
    if ref in known:
        return ref
    matching = [digest for digest in known if ref and digest.startswith(ref)]
    if not matching:
        raise SnapshotNotFound(f"snapshot {ref!r}: neither a tag nor a digest of this store; it has {len(known)}")
    if len(matching) > 1:
        raise SnapshotNotFound(f"snapshot {ref!r}: begins {len(matching)} digests, give more digits")
    return matching[0]


def snapshot_ids(layout: Layout) -> list[str]:
    return [name.removesuffix(JSON) for name in names_in(layout.snapshots) if name.endswith(JSON)]


def tag_names(layout: Layout) -> list[str]:
    return names_in(layout.tags)


def _path(layout: Layout, snapshot_id: str) -> Path:
    return layout.snapshots / f"{snapshot_id}{JSON}"


def _is_digest_like(tag: str) -> bool:
    return _HEX.issuperset(tag)


def _encode(entries: list[SnapshotEntry]) -> bytes:
    document = {"format": FORMAT, "version": VERSION, "entries": [list(entry) for entry in entries]}
    return canonical_json(document).encode()


def _decode(data: bytes, *, where: str) -> tuple[SnapshotEntry, ...]:
    try:
        document: Any = parse_json(data, where=where, error=StoreError)
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise StoreError(
                f"{where}: format {document['format']!r} version {document['version']!r}, expected {FORMAT!r} {VERSION}"
            )
        return tuple(SnapshotEntry(*fields) for fields in document["entries"])
    except (KeyError, TypeError) as error:
        raise StoreError(f"{where}: not a snapshot: {error}") from error
