"""Putting committed episodes into shards, so that many are read at the disk's speed and few files hold them.

A shard is written beside, waited for, read back and compared with what each episode's sidecar says; only then it gets
its name, and its index after it, which commits it. Originals go, if they are to go, once that is on the disk, and
sidecars never: so an episode is whole in at least one place at any moment, and a run that was broken off is gone on
with by the next.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from opc_ros.durable import PART, make_folder, replace_file, store_error, sync_folder, try_lock
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.progress import Report, ignore_progress
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.layout import JSON, MCAP, Home, Place, day_of
from opc_ros.store.sealed import encode_document, read_document
from opc_ros.store.shard_format import ShardIndex, ShardWriter, encode_index
from opc_ros.store.store import Store

SHARD_BYTES = 100_000_000
SHARD_EPISODES = 10_000  # an index is read whole
STORE_VERSION = 2  # of a store whose episodes may lie in shards alone; an older opc_ros refuses it


@dataclass(slots=True)
class Packing:
    """What a run did."""

    shards: int = 0
    episodes: int = 0  # packed now
    bytes_packed: int = 0
    already: int = 0  # packed by an earlier run
    dropped: int = 0  # originals removed
    dropped_bytes: int = 0
    left_today: int = 0  # of a day that is not over
    damaged: list[str] = field(default_factory=list)  # not packed, or not dropped, and why


class _Member(NamedTuple):
    episode_id: str
    file_sha256: str
    file_bytes: int
    began_ns: int


def pack(
    store: Store,
    *,
    robots: Sequence[str] = (),
    is_today_packed: bool = False,
    is_dropping: bool = False,
    shard_bytes: int = SHARD_BYTES,
    report: Report = ignore_progress,
) -> Packing:
    """Pack whatever no shard holds yet, folder by folder; with `is_dropping` remove files that a shard holds."""
    if not store.layout.has_files:
        raise StoreError(
            f"{store.contents.blobs.name}: episodes in a bucket cannot be packed there: "
            "pack them in a folder and `opc store sync` it to a new name in the bucket"
        )
    if shard_bytes < 1:
        raise StoreError(f"shards of {shard_bytes} bytes, expected at least 1")
    try:
        make_folder(store.layout.shards)
        descriptor = os.open(store.layout.shards, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if try_lock(descriptor) is False:
                raise StoreError(f"{store.path}: another `opc store pack` is at work; let it finish")
            return _Packer(store, is_dropping, shard_bytes, report).run(robots, is_today_packed)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise store_error(f"{store.path}: cannot pack", error) from error


class _Packer:
    def __init__(self, store: Store, is_dropping: bool, shard_bytes: int, report: Report) -> None:
        self._store = store
        self._layout = store.layout
        self._shards = store.contents.shards
        self._is_dropping = is_dropping
        self._shard_bytes = shard_bytes
        self._report = report
        self._done = Packing()
        self._looked_at = self._total = 0
        self._checked: set[str] = set()  # digests of files that a shard of this run was read back to hold

    def run(self, robots: Sequence[str], is_today_packed: bool) -> Packing:
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
            self._pack_folder(facts)
            if self._is_dropping:
                self._drop_files(facts)
            self._checked.clear()
        self._report(self._total, self._total)
        return self._done

    def _pack_folder(self, facts: FolderFacts) -> None:
        members = self._members(facts)
        packed = self._shards.of(facts.home)
        missing = [one for one in members if packed.find(one.episode_id, one.file_sha256) is None]
        self._done.already += len(members) - len(missing)
        self._looked_at += len(members) - len(missing)
        for batch in self._batches(missing):
            self._write_shard(facts.home, batch)

    def _members(self, facts: FolderFacts) -> list[_Member]:
        segment = self._store.catalogue.segment(facts)
        digests = segment.rows["sha256"].tobytes().hex()
        return [
            _Member(episode_id, digests[64 * index : 64 * index + 64], file_bytes, began_ns)
            for index, (episode_id, file_bytes, began_ns) in enumerate(
                zip(segment.ids, segment.rows["file_bytes"].tolist(), segment.rows["began_ns"].tolist(), strict=True)
            )
        ]

    def _batches(self, members: Sequence[_Member]) -> Iterator[list[_Member]]:
        batch: list[_Member] = []
        size = 0
        for one in members:
            if batch and (size + one.file_bytes > self._shard_bytes or len(batch) == SHARD_EPISODES):
                yield batch
                batch, size = [], 0
            batch.append(one)
            size += one.file_bytes
        if batch:
            yield batch

    def _write_shard(self, home: Home, batch: Sequence[_Member]) -> None:
        folder = self._layout.shard_folder(home)
        make_folder(folder)
        part = folder / f".{uuid.uuid4().hex}{MCAP}{PART}"
        try:
            with part.open("xb") as file:
                sink = _HashedFile(file)
                writer = ShardWriter(sink)
                for one in batch:
                    self._add(writer, home, one)
                writer.finish()
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that the disk is what is read back
            if not writer.episodes:
                return
            index = ShardIndex(home, sink.sha256(), sink.tell(), tuple(writer.episodes))
            _check_written(part, index)
            part.rename(folder / f"{index.sha256}{MCAP}")
            sync_folder(folder)
            replace_file(folder / f"{index.sha256}{JSON}", encode_index(index))
        finally:
            part.unlink(missing_ok=True)
        self._checked.update(one.file_sha256 for one in index.episodes)
        self._done.shards += 1
        self._done.episodes += len(index.episodes)
        self._done.bytes_packed += sum(one.length for one in index.episodes)

    def _add(self, writer: ShardWriter, home: Home, one: _Member) -> None:
        self._report(self._looked_at, self._total, f"{home.robot} {home.day}")
        self._looked_at += 1
        try:
            data = self._store.contents.read(Place(home, one.episode_id), one.file_sha256)
        except EpisodeDamaged as error:
            self._done.damaged.append(str(error))
        else:
            writer.add(one.episode_id, one.file_sha256, one.began_ns, data)

    def _drop_files(self, facts: FolderFacts) -> None:
        packed, dropped = self._shards.of(facts.home), 0
        for one in self._members(facts):
            place = Place(facts.home, one.episode_id)
            file = self._layout.file(place)
            found = packed.find(one.episode_id, one.file_sha256)
            if found is None or not file.exists():
                continue
            try:
                if one.file_sha256 not in self._checked:
                    self._store.contents.read_packed(found, one.file_sha256)
            except EpisodeDamaged as error:
                self._done.damaged.append(f"episode {one.episode_id}: its file stays: {error}")
                continue
            if not dropped:
                self._raise_version()
            file.unlink(missing_ok=True)
            dropped += 1
            self._done.dropped += 1
            self._done.dropped_bytes += one.file_bytes
        if dropped:
            sync_folder(self._layout.home_folder(facts.home))

    def _raise_version(self) -> None:
        """An older opc_ros would take sidecars without files for what a crash left."""
        marker = self._layout.marker
        body = read_document(marker, "store")
        data = encode_document("store", body, version=STORE_VERSION)
        if marker.read_bytes() != data:
            replace_file(marker, data)


class _HashedFile:
    """A file that is hashed while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._position = 0

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self._hash.update(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def sha256(self) -> str:
        return self._hash.hexdigest()


def _check_written(part: Path, index: ShardIndex) -> None:
    """Read it back as any later reader will."""
    data = memoryview(part.read_bytes())
    if hashlib.sha256(data).hexdigest() != index.sha256:
        raise StoreError(f"{part}: reads back otherwise than it was written; nothing was dropped: check the disk")
    for one in index.episodes:
        if hashlib.sha256(data[one.offset : one.offset + one.length]).hexdigest() != one.file_sha256:
            raise StoreError(
                f"{part}: episode {one.id} reads back otherwise than it was committed; nothing was dropped"
            )
