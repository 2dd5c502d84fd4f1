"""Removing what nothing refers to, and old quarantine; never an episode, a label or a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from opc_ros.durable import age_s, store_error, sync_folder
from opc_ros.errors import StoreError
from opc_ros.store import snapshots
from opc_ros.store.layout import FLAT, JSON, MCAP, Home, Place, names_in
from opc_ros.store.quarantine import read_quarantined
from opc_ros.store.store import Store

SETTLED_S = 3600.0  # a part is written before the snapshot that lists it
SHARD_SETTLED_S = 7 * 86_400.0  # a shard is copied before the sidecars of its episodes, and copying may take days
DAY_NS = 86_400_000_000_000


@dataclass(slots=True)
class Garbage:
    """What was removed, or would be; names are relative to the store."""

    quarantined: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # of snapshots that were never finished
    tables: list[str] = field(default_factory=list)  # of the catalogue
    shards: list[str] = field(default_factory=list)  # shards none of whose episodes is in the store any more
    freed_bytes: int = 0


def collect_garbage(
    store: Store, *, quarantine_older_than_days: float | None = None, is_trial: bool = False
) -> Garbage:
    """Remove garbage, or with `is_trial` only list it; quarantine is removed only if an age is given."""
    store = store.writable
    found = Garbage()
    try:
        if quarantine_older_than_days is not None:
            limit_ns = store.now() - round(quarantine_older_than_days * DAY_NS)
            for path in _old_quarantine(store, limit_ns):
                _remove(store, path, found.quarantined, found, is_trial=is_trial)
        for path in _unlisted_parts(store):
            _remove(store, path, found.parts, found, is_trial=is_trial)
        for path in _unused_shards(store):
            _remove(store, path, found.shards, found, is_trial=is_trial)
        for path in _unlisted_tables(store):
            _remove(store, path, found.tables, found, is_trial=is_trial)
    except OSError as error:
        raise store_error(f"{store.path}: cannot clear", error) from error
    return found


def _old_quarantine(store: Store, limit_ns: int) -> Iterator[Path]:
    """Files first and their reason last, so that a half-removed entry still says why it is there."""
    for robot in names_in(store.layout.quarantine):
        folder = store.layout.quarantine / robot
        for name in names_in(folder):
            if not name.endswith(JSON) or name.endswith(f".sidecar{JSON}"):
                continue
            try:
                entry = read_quarantined(folder / name)
            except StoreError:
                continue  # its age is unknown
            if entry.quarantined_ns < limit_ns:
                yield from (folder / file for file in entry.files if (folder / file).is_file() and "/" not in file)
                yield folder / name


def _unlisted_parts(store: Store) -> Iterator[Path]:
    """Parts of no snapshot; if any snapshot is unreadable, it might list any part, so none is removed."""
    listed = set()
    for snapshot_id in store.snapshots():
        listed |= snapshots.part_digests(store.layout, snapshot_id)
    for path in sorted(store.layout.snapshot_groups.rglob(f"*{JSON}")):
        if path.stem not in listed and _is_settled(path):
            yield path


def _unlisted_tables(store: Store) -> Iterator[Path]:
    listed = {facts.segment for facts in store.catalogue.folders()}
    for path in sorted(store.layout.catalogue.glob("??/*")):
        if path.name not in listed and _is_settled(path):
            yield path


def _unused_shards(store: Store) -> Iterator[Path]:
    """Index before shard, because the index makes it a shard. An unreadable index might list anything, so it stays."""
    for path in sorted(store.layout.shards.glob(f"*/*/*{JSON}")):
        home = Home(path.parts[-3], "" if path.parts[-2] == FLAT else path.parts[-2])
        index = store.contents.shards.of(home).indexes.get(path.stem)
        if index is None or not _is_settled(path, SHARD_SETTLED_S):
            continue
        if not any(store.layout.sidecar(Place(home, one.id)).exists() for one in index.episodes):
            yield path
            yield path.with_suffix(MCAP)


def _is_settled(path: Path, settled_s: float = SETTLED_S) -> bool:
    try:
        return age_s(path) >= settled_s
    except FileNotFoundError:
        return False


def _remove(store: Store, path: Path, names: list[str], found: Garbage, *, is_trial: bool) -> None:
    try:
        found.freed_bytes += path.stat().st_size
    except FileNotFoundError:
        return
    names.append(str(path.relative_to(store.path)))
    if not is_trial:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
