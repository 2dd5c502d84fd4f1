"""Packing committed episodes into shards, so that many can be read at the disk's speed from few files.

A shard is written, synced, read back and compared with each episode's sidecar; its index follows and commits it.
Originals are removed, if they are to be, once that is on disk or in the bucket; sidecars never are. So an episode is
complete in at least one place at any moment, and the next run continues an interrupted one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from opc_ros.durable import store_error
from opc_ros.errors import BlobNotFound, EpisodeDamaged, StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.folder_shards import FolderShards
from opc_ros.store.layout import Home, Place, day_of
from opc_ros.store.sealed import decode_document, encode_document
from opc_ros.store.shard_format import LooseEpisode, ShardIndex
from opc_ros.store.shards import Slice
from opc_ros.store.store import Store
from opc_ros.store.store_sync import MARKER

SHARD_BYTES = 100_000_000
SHARD_EPISODES = 10_000  # an index is read as a whole
STORE_VERSION = 2  # of a store whose episodes may only be in shards; an older opc_ros refuses it


@dataclass(slots=True)
class Packing:
    """What a run did."""

    shards: int = 0
    episodes: int = 0  # packed by this run
    bytes_packed: int = 0
    already: int = 0  # packed by an earlier run
    dropped: int = 0  # originals removed
    dropped_bytes: int = 0
    left_today: int = 0  # of a day that is not over yet
    damaged: list[str] = field(default_factory=list)  # not packed, or not dropped, with the reason


class ShardTarget(Protocol):
    """Where shards go, and where the original files are."""

    @property
    def at_once(self) -> int:
        """How many episodes to read at a time."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Hold this target for the duration of a run."""
        ...

    def finish_broken_off(self) -> list[str]:
        """Repair what an interrupted run left; returns one line for each thing that cannot be repaired."""
        ...

    def write(self, home: Home, members: Iterable[tuple[LooseEpisode, bytes]]) -> ShardIndex | None:
        """Write one shard of these, read it back and commit it; returns None if there are none."""
        ...

    def originals(self, home: Home) -> set[str]:
        """Ids of the episodes that have a file of their own."""
        ...

    def before_dropping(self, home: Home) -> None:
        """Called before files are removed, so that no reader takes their episodes for lost."""
        ...

    def drop(self, home: Home, episode_ids: Iterable[str]) -> None: ...

    def read_marker(self) -> bytes: ...

    def replace_marker(self, data: bytes) -> None: ...

    def look_again(self) -> None:
        """Find the shards just written."""
        ...


def pack(
    store: Store,
    *,
    robots: Sequence[str] = (),
    is_today_packed: bool = False,
    is_dropping: bool = False,
    shard_bytes: int = SHARD_BYTES,
    report: Report = ignore_progress,
) -> Packing:
    """Pack whatever no shard contains yet, folder by folder; with `is_dropping`, remove files that a shard contains."""
    if shard_bytes < 1:
        raise StoreError(f"shards of {shard_bytes} bytes, expected at least 1")
    target = _find_target(store)
    try:
        with target.held():
            return _Packer(store, target, is_dropping, shard_bytes, report).run(robots, is_today_packed)
    except OSError as error:
        raise store_error(f"{store.path}: cannot pack", error) from error


def _find_target(store: Store) -> ShardTarget:
    if store.layout.has_files:
        return FolderShards(store)
    from opc_ros.store.bucket_shards import BucketShards
    from opc_ros.store.bucket_store import BucketStore

    assert isinstance(store, BucketStore)
    return BucketShards(store)


class _Packer:
    def __init__(self, store: Store, target: ShardTarget, is_dropping: bool, shard_bytes: int, report: Report) -> None:
        self._store = store
        self._target = target
        self._shards = store.contents.shards
        self._is_dropping = is_dropping
        self._shard_bytes = shard_bytes
        self._report = report
        self._done = Packing()
        self._looked_at = self._total = 0
        self._checked: set[str] = set()  # digests of files that this run has read back from a shard

    def run(self, robots: Sequence[str], is_today_packed: bool) -> Packing:
        self._done.damaged += self._target.finish_broken_off()
        today = day_of(self._store.now())
        chosen: list[FolderFacts] = []
        for facts in self._store.catalogue.folders():
            if robots and facts.robot not in robots:
                continue
            if facts.day >= today and not is_today_packed:
                self._done.left_today += facts.episodes
            else:
                chosen.append(facts)
        self._total = sum(facts.episodes for facts in chosen)
        for facts in chosen:
            members = self._members(facts)
            self._pack_folder(facts.home, members)
            if self._is_dropping:
                self._drop_originals(facts.home, members)
            self._checked.clear()
        self._report(self._total, self._total)
        return self._done

    def _pack_folder(self, home: Home, members: Sequence[LooseEpisode]) -> None:
        packed = self._shards.of(home)
        missing = [one for one in members if packed.find(one.episode_id, one.file_sha256) is None]
        self._done.already += len(members) - len(missing)
        self._looked_at += len(members) - len(missing)
        for batch in self._batches(missing):
            index = self._target.write(home, self._read_each(home, batch))
            if index is not None:
                self._checked.update(one.file_sha256 for one in index.episodes)
                self._done.shards += 1
                self._done.episodes += len(index.episodes)
                self._done.bytes_packed += sum(one.length for one in index.episodes)
        if missing:
            self._target.look_again()

    def _members(self, facts: FolderFacts) -> list[LooseEpisode]:
        segment = self._store.catalogue.segment(facts)
        digests = segment.rows["sha256"].tobytes().hex()
        return [
            LooseEpisode(episode_id, digests[64 * index : 64 * index + 64], file_bytes, began_ns)
            for index, (episode_id, file_bytes, began_ns) in enumerate(
                zip(segment.ids, segment.rows["file_bytes"].tolist(), segment.rows["began_ns"].tolist(), strict=True)
            )
        ]

    def _batches(self, members: Sequence[LooseEpisode]) -> Iterator[list[LooseEpisode]]:
        batch: list[LooseEpisode] = []
        size = 0
        for one in members:
            if batch and (size + one.file_bytes > self._shard_bytes or len(batch) == SHARD_EPISODES):
                yield batch
                batch, size = [], 0
            batch.append(one)
            size += one.file_bytes
        if batch:
            yield batch

    def _read_each(self, home: Home, batch: Sequence[LooseEpisode]) -> Iterator[tuple[LooseEpisode, bytes]]:
        """Read the episodes that match their sidecars; others are reported and left where they are."""
        step = self._target.at_once
        with ThreadPoolExecutor(step) as pool:
            for first in range(0, len(batch), step):
                some = batch[first : first + step]
                for one, found in zip(some, pool.map(lambda one: self._read(home, one), some), strict=True):
                    self._report(self._looked_at, self._total, f"{home.robot} {home.day}")
                    self._looked_at += 1
                    if isinstance(found, EpisodeDamaged):
                        self._done.damaged.append(str(found))
                    else:
                        yield one, found

    def _read(self, home: Home, one: LooseEpisode) -> bytes | EpisodeDamaged:
        try:
            return self._store.contents.read(Place(home, one.episode_id), one.file_sha256)
        except EpisodeDamaged as error:
            return error

    def _drop_originals(self, home: Home, members: Sequence[LooseEpisode]) -> None:
        packed, there = self._shards.of(home), self._target.originals(home)
        held: dict[str, list[tuple[LooseEpisode, Slice]]] = {}  # by shard
        for one in members:
            found = packed.find(one.episode_id, one.file_sha256)
            if found is not None and one.episode_id in there:
                held.setdefault(found.key, []).append((one, found))
        gone = [one for key, some in held.items() for one in self._check_held(key, some)]
        if not gone:
            return
        self._raise_version()
        self._target.before_dropping(home)
        self._target.drop(home, [one.episode_id for one in gone])
        self._done.dropped += len(gone)
        self._done.dropped_bytes += sum(one.file_bytes for one in gone)

    def _check_held(self, key: str, members: Collection[tuple[LooseEpisode, Slice]]) -> Iterator[LooseEpisode]:
        """Episodes whose committed bytes a shard really has; reads the shard unless this run already has."""
        if all(one.file_sha256 in self._checked for one, _ in members):
            yield from (one for one, _ in members)
            return
        blobs = self._store.contents.blobs
        try:
            data = memoryview(blobs.get(key))
        except StoreError as error:
            if not (self._store.layout.has_files or isinstance(error, BlobNotFound)):
                raise  # an error of the network, not damaged bytes
            data = memoryview(b"")
        for one, found in members:
            digest = hashlib.sha256(data[found.offset : found.offset + found.length]).hexdigest()
            if digest == one.file_sha256:
                yield one
            else:
                self._done.damaged.append(
                    f"episode {one.episode_id}: its file stays: shard {blobs.name}/{key} has sha256 {digest} "
                    f"at {found.offset}, committed was {one.file_sha256}"
                )

    def _raise_version(self) -> None:
        """Raise the store's version: an older opc_ros would take sidecars without files for the result of a crash."""
        before = self._target.read_marker()
        data = encode_document("store", decode_document(before, "store", where=MARKER), version=STORE_VERSION)
        if before != data:
            self._target.replace_marker(data)
