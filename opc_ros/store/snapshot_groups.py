"""Episodes of one robot and one day as snapshots list them: the parts that snapshots share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import StoreError

FORMAT = "opc_ros.snapshot_group"
VERSION = 1

_HEX = frozenset("0123456789abcdef")


class SnapshotEntry(NamedTuple):
    """One episode as a snapshot pins it: these bytes, with this label."""

    episode_id: str
    robot: str
    file_sha256: str
    label_revision: int
    is_success: bool


class SnapshotGroup(NamedTuple):
    """One part of a snapshot, named by the sha256 of its canonical list."""

    robot: str
    day: str  # UTC, on which the episodes began
    digest: str
    episodes: int
    successes: int


def encode_group(robot: str, day: str, rows: Sequence[Sequence[Any]]) -> tuple[SnapshotGroup, bytes]:
    """Encode rows of (id, sha256 of the file, label revision, success), sorted by id."""
    document = {"format": FORMAT, "version": VERSION, "robot": robot, "day": day, "entries": rows}
    data = canonical_json(document).encode()
    successes = sum(1 for row in rows if row[3])
    return SnapshotGroup(robot, day, hashlib.sha256(data).hexdigest(), len(rows), successes), data


def decode_group(data: bytes, group: SnapshotGroup, *, where: str) -> list[SnapshotEntry]:
    if hashlib.sha256(data).hexdigest() != group.digest:
        raise StoreError(f"{where}: its part for {group.robot}, {group.day} was changed or damaged")
    document: Any = parse_json(data, where=where, error=StoreError)
    try:
        told = (document["format"], document["version"], document["robot"], document["day"])
        rows = [(row[0], group.robot, *row[1:]) for row in document["entries"]]
    except (KeyError, TypeError, IndexError) as error:
        raise StoreError(f"{where}: no part of a snapshot: {error}") from error
    if told != (FORMAT, VERSION, group.robot, group.day):
        raise StoreError(f"{where}: part says {told}, expected {(FORMAT, VERSION, group.robot, group.day)}")
    return check_entries(rows, where=where)


def check_entries(rows: Sequence[Sequence[Any]], *, where: str) -> list[SnapshotEntry]:
    """Check and type the entries of a snapshot."""
    entries = []
    for row in rows:
        if [type(value) for value in row] != [str, str, str, int, bool]:
            raise StoreError(f"{where}: entry {list(row)!r:.200}, expected id, robot, sha256, revision, success")
        if len(row[2]) != 64 or not _HEX.issuperset(row[2]) or row[3] < 0:
            raise StoreError(f"{where}: entry of {row[0]!r:.200} has an invalid sha256 or revision")
        entries.append(SnapshotEntry(*row))
    return entries
