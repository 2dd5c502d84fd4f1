"""Content-addressed lists of labelled episodes, which scores name and can be recomputed from.

A snapshot is a short list of parts, one for each robot and day; each part is a file named by its digest. Snapshots that
share episodes share parts, so a snapshot with a few more episodes writes only a little more. Version 1 was one long
list; existing ones stay as they are and keep their ids.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np

from opc_ros.documents import canonical_json, parse_json
from opc_ros.durable import create_file, make_folder, replace_file, swap_file
from opc_ros.episode import check_name
from opc_ros.errors import EpisodeDamaged, SnapshotNotFound, StoreError
from opc_ros.store.catalogue import Catalogue
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.layout import JSON, StoreLayout, names_in
from opc_ros.store.paging import may_match
from opc_ros.store.selection import EVERYTHING, Selection
from opc_ros.store.snapshot_groups import SnapshotEntry, SnapshotGroup, check_entries, decode_group, encode_group

FORMAT = "opc_ros.snapshot"
VERSION = 2

_DIGEST_LENGTH = 64
_HEX = frozenset("0123456789abcdef")
_FEW = 16  # up to this many files, syncing each is fast enough
_MOST_TRIES = 20


class GroupedEntries(Sequence[SnapshotEntry]):
    """The entries of a snapshot, read part by part on demand: a million may not fit into memory."""

    def __init__(self, layout: StoreLayout, snapshot_id: str, groups: Sequence[SnapshotGroup]) -> None:
        self._layout = layout
        self._where = f"snapshot {snapshot_id}"
        self._groups = tuple(groups)
        self._ends = np.cumsum([group.episodes for group in self._groups])
        self._read: tuple[int, list[SnapshotEntry]] | None = None

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __iter__(self) -> Iterator[SnapshotEntry]:
        for number in range(len(self._groups)):
            yield from self._entries_of(number)

    @overload
    def __getitem__(self, index: int) -> SnapshotEntry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[SnapshotEntry]: ...

    def __getitem__(self, index: int | slice) -> SnapshotEntry | Sequence[SnapshotEntry]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self._ends, position, side="right"))
        return self._entries_of(number)[position - int(self._ends[number] - self._groups[number].episodes)]

    @property
    def part_digests(self) -> set[str]:
        return {group.digest for group in self._groups}

    def _entries_of(self, number: int) -> list[SnapshotEntry]:
        if self._read is None or self._read[0] != number:
            group = self._groups[number]
            path = group_path(self._layout, group.digest)
            try:
                data = path.read_bytes()
            except OSError as error:
                raise StoreError(f"{self._where}: {path}: {error.strerror or error}") from error
            entries = decode_group(data, group, where=self._where)
            if (len(entries), sum(entry.is_success for entry in entries)) != (group.episodes, group.successes):
                raise StoreError(f"{self._where}: its part for {group.robot}, {group.day} has {len(entries)} episodes")
            self._read = (number, entries)
        return self._read[1]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A fixed set of episodes; its id is the sha256 of its canonical list."""

    id: str
    entries: Sequence[SnapshotEntry] = field(compare=False, repr=False)  # by robot, day and id; version 1: by id
    successes: int


@dataclass(frozen=True, slots=True)
class ComposedSnapshot:
    """A snapshot that is not written yet: its list, and the parts that may be new."""

    id: str
    document: bytes
    groups: tuple[SnapshotGroup, ...]
    parts: dict[str, bytes]  # by digest; parts of whole folders are made only when they turn out to be missing
    folders: tuple[FolderFacts, ...]  # that it was made from


def compose_snapshot(catalogue: Catalogue, selection: Selection) -> ComposedSnapshot:
    """The snapshot of all labelled episodes that match."""
    known: dict[tuple[str, str], list[SnapshotGroup | list[list[Any]]]] = {}
    unlabelled = others = 0
    folders = tuple(catalogue.folders())
    for facts in folders:
        if facts.damaged:
            raise EpisodeDamaged(next(iter(catalogue.segment(facts).damaged.values())))
        if selection == EVERYTHING:
            for row in facts.groups:
                group = SnapshotGroup(*row)
                known.setdefault((group.robot, group.day), []).append(group)
            unlabelled += facts.episodes - sum(row[3] for row in facts.groups)
        elif not facts.episodes or not may_match(facts, selection):
            others += facts.episodes
        else:
            segment = catalogue.segment(facts)
            mask = segment.matching(selection)
            found = segment.groups(mask)
            for day, rows in found.items():
                known.setdefault((facts.robot, day), []).append(rows)
            others += int((~mask).sum())
            unlabelled += int(mask.sum()) - sum(map(len, found.values()))
    groups: list[SnapshotGroup] = []
    parts: dict[str, bytes] = {}
    for (robot, day), pieces in sorted(known.items()):
        if len(pieces) == 1 and isinstance(pieces[0], SnapshotGroup):
            groups.append(pieces[0])
            continue
        rows = _merge(catalogue, folders, robot, day, pieces)
        group, data = encode_group(robot, day, rows)
        groups.append(group)
        parts[group.digest] = data
    if not groups:
        raise StoreError(
            f"snapshot: no labelled episode is selected, expected at least one "
            f"({unlabelled} without label, {others} outside the selection)"
        )
    document = canonical_json({"format": FORMAT, "version": VERSION, "groups": groups}).encode()
    return ComposedSnapshot(hashlib.sha256(document).hexdigest(), document, tuple(groups), parts, folders)


def take_snapshot(layout: StoreLayout, catalogue: Catalogue, selection: Selection) -> Snapshot:
    """Compose and write a snapshot; if new episodes change a folder before its part is written, start again."""
    for _ in range(_MOST_TRIES):
        composed = compose_snapshot(catalogue, selection)
        missing = [group for group in composed.groups if not _has_part(layout, group)]
        # The newest day is the one that keeps changing, so its part comes first.
        missing.sort(key=lambda group: group.day, reverse=True)
        if _write_parts(layout, catalogue, composed, missing):
            break
    else:
        raise StoreError(f"snapshot: the store changed under each of {_MOST_TRIES} attempts; take it again")
    path = snapshot_path(layout, composed.id)
    if not create_file(path, composed.document) and path.read_bytes() != composed.document:
        replace_file(path, composed.document)
    return _to_snapshot(layout, composed.id, composed.groups)


def _write_parts(
    layout: StoreLayout, catalogue: Catalogue, composed: ComposedSnapshot, missing: Sequence[SnapshotGroup]
) -> bool:
    """Write the parts; returns False if a folder has changed since the snapshot was composed."""
    make_folder(layout.snapshot_groups)
    for group in missing:
        data = composed.parts.get(group.digest) or _part_of(catalogue, composed.folders, group)
        if data is None:
            return False
        path = group_path(layout, group.digest)
        path.parent.mkdir(exist_ok=True)
        if len(missing) <= _FEW:
            replace_file(path, data)
        else:
            swap_file(path, data)
    if len(missing) > _FEW:
        _sync_file_system(layout.snapshot_groups)
    return True


def group_path(layout: StoreLayout, digest: str) -> Path:
    return layout.snapshot_groups / digest[:2] / f"{digest}{JSON}"


def write_tag(layout: StoreLayout, tag: str, snapshot_id: str) -> None:
    check_name("tag", tag)
    if _is_digest_like(tag):
        raise StoreError(f"tag {tag!r} could be taken for the beginning of a digest; give it another letter")
    replace_file(layout.tags / tag, f"{snapshot_id}\n".encode())


def read_tag(layout: StoreLayout, tag: str) -> str:
    path = layout.tags / tag
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotNotFound(f"tag {tag}: {path} cannot be read: {error}") from error
    if len(text) != _DIGEST_LENGTH or not _HEX.issuperset(text):
        raise SnapshotNotFound(f"tag {tag}: {path} holds {text[:80]!r}, expected a snapshot's 64 hex digits")
    return text


def read_snapshot(layout: StoreLayout, snapshot_id: str) -> Snapshot:
    """Read one snapshot by its full digest, and check that its bytes still match."""
    path = snapshot_path(layout, snapshot_id)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SnapshotNotFound(f"snapshot {snapshot_id}: not in this store; `opc store snapshot` lists all") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != snapshot_id:
        raise StoreError(f"snapshot {snapshot_id}: its file has sha256 {found}, so it was changed or damaged")
    return _decode(layout, snapshot_id, data)


def part_digests(layout: StoreLayout, snapshot_id: str) -> set[str]:
    """The digests of the parts that a snapshot lists."""
    entries = read_snapshot(layout, snapshot_id).entries
    return entries.part_digests if isinstance(entries, GroupedEntries) else set()


def resolve(layout: StoreLayout, ref: str) -> str:
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


def snapshot_ids(layout: StoreLayout) -> list[str]:
    return [name.removesuffix(JSON) for name in names_in(layout.snapshots) if name.endswith(JSON)]


def tag_names(layout: StoreLayout) -> list[str]:
    return names_in(layout.tags)


def snapshot_path(layout: StoreLayout, snapshot_id: str) -> Path:
    return layout.snapshots / f"{snapshot_id}{JSON}"


def _is_digest_like(tag: str) -> bool:
    return _HEX.issuperset(tag)


def _to_snapshot(layout: StoreLayout, snapshot_id: str, groups: Sequence[SnapshotGroup]) -> Snapshot:
    entries = GroupedEntries(layout, snapshot_id, groups)
    return Snapshot(snapshot_id, entries, sum(group.successes for group in groups))


def _merge(
    catalogue: Catalogue,
    folders: Sequence[FolderFacts],
    robot: str,
    day: str,
    pieces: Sequence[SnapshotGroup | list[list[Any]]],
) -> list[list[Any]]:
    """Merge episodes of one robot and day from several folders, by id."""
    rows: list[list[Any]] = [row for piece in pieces if not isinstance(piece, SnapshotGroup) for row in piece]
    if any(isinstance(piece, SnapshotGroup) for piece in pieces):
        for facts in folders:
            if facts.robot == robot and any(row[1] == day for row in facts.groups):
                rows += catalogue.segment(facts).groups().get(day, [])
    return sorted(rows)


def _part_of(catalogue: Catalogue, folders: Sequence[FolderFacts], group: SnapshotGroup) -> bytes | None:
    """The part with this digest, from the catalogue; None if its folder has changed since."""
    made, data = encode_group(group.robot, group.day, _merge(catalogue, folders, group.robot, group.day, [group]))
    return data if made == group else None


def _has_part(layout: StoreLayout, group: SnapshotGroup) -> bool:
    """Whether a part exists; its size reveals most damage, and its digest all of it when it is read."""
    try:
        return group_path(layout, group.digest).stat().st_size > 0
    except OSError:
        return False


def _sync_file_system(folder: Path) -> None:
    """Sync the whole file system once, instead of many new files one by one."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed")
    except AttributeError:
        os.sync()
    finally:
        os.close(descriptor)


def _decode(layout: StoreLayout, snapshot_id: str, data: bytes) -> Snapshot:
    where = f"snapshot {snapshot_id}"
    document: Any = parse_json(data, where=where, error=StoreError)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StoreError(f"{where}: not a snapshot")
    if document.get("version") == 1:
        rows = document.get("entries")
        if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 5 for row in rows):
            raise StoreError(f"{where}: not a snapshot: it lists no episodes")
        entries = check_entries(rows, where=where)
        return Snapshot(snapshot_id, tuple(entries), sum(entry.is_success for entry in entries))
    if document.get("version") != VERSION:
        raise StoreError(f"{where}: version {document.get('version')!r}, this opc_ros reads 1 and {VERSION}")
    return _to_snapshot(layout, snapshot_id, _check_groups(document.get("groups"), where=where))


def _check_groups(rows: Any, *, where: str) -> list[SnapshotGroup]:
    if not isinstance(rows, list) or not rows:
        raise StoreError(f"{where}: not a snapshot: it lists no parts")
    groups = []
    for row in rows:
        if not isinstance(row, list) or [type(value) for value in row] != [str, str, str, int, int]:
            raise StoreError(f"{where}: part {row!r:.200}, expected robot, day, digest, episodes, successes")
        group = SnapshotGroup(*row)
        is_digest = len(group.digest) == _DIGEST_LENGTH and _HEX.issuperset(group.digest)
        if not is_digest or not 0 <= group.successes <= group.episodes or group.episodes < 1:
            raise StoreError(f"{where}: part {row!r:.200} makes no sense")
        groups.append(group)
    return groups
