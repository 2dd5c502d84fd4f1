"""Shards in a bucket: put under their digest, fetched and compared, and committed by their index."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from opc_ros.store.bucket_mirror import AT_ONCE
from opc_ros.store.bucket_store import BucketStore
from opc_ros.store.layout import FLAT, JSON, MCAP, Home
from opc_ros.store.shard_checks import PREFIX, refuse_unlike, scan_index
from opc_ros.store.shard_format import HashedFile, LooseEpisode, ShardIndex, ShardWriter, encode_index
from opc_ros.store.store_sync import MARKER


class BucketShards:
    """Shards and original episode files of a store in a bucket.

    Two packers at once do no harm: what they put is named by its digest or is the same for both, and each removes an
    original only after it has read a shard that contains it. They may pack an episode twice, which costs space.
    """

    at_once = AT_ONCE

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._blobs = store.contents.blobs

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        yield

    def finish_broken_off(self) -> list[str]:
        """Commit each shard that is complete but has no index; returns a line for each incomplete one."""
        keys = {fact.key for fact in self._blobs.list(PREFIX)}
        problems = []
        for key in sorted(keys):
            stem = key.removesuffix(MCAP)
            if not key.endswith(MCAP) or stem + JSON in keys:
                continue
            folder, _, sha256 = stem.rpartition("/")
            robot, day = folder.removeprefix(PREFIX).split("/")
            data = self._blobs.get(key)
            if hashlib.sha256(data).hexdigest() != sha256:
                problems.append(f"shard {self._blobs.name}/{key}: is not what its name says; nothing is read from it")
                continue
            self._commit(scan_index(data, Home(robot, "" if day == FLAT else day), sha256))
        return problems

    def write(self, home: Home, members: Iterable[tuple[LooseEpisode, bytes]]) -> ShardIndex | None:
        buffer = io.BytesIO()
        sink = HashedFile(buffer)
        writer = ShardWriter(sink)
        for one, data in members:
            writer.add(one.episode_id, one.file_sha256, one.began_ns, data)
        writer.finish()
        if not writer.episodes:
            return None
        index = ShardIndex(home, sink.sha256(), sink.tell(), tuple(writer.episodes))
        key = f"{_folder_of(home)}/{index.sha256}{MCAP}"
        data = buffer.getvalue()
        del buffer, sink, writer  # a shard is large
        if not self._blobs.put_if_absent(key, data) and self._blobs.get(key) != data:
            self._blobs.put(key, data)  # what was there was damaged, or else its digest would match
        del data
        refuse_unlike(self._blobs.get(key), index, where=f"{self._blobs.name}/{key}")
        self._commit(index)
        return index

    def originals(self, home: Home) -> set[str]:
        """Ids of the episodes that have a file of their own."""
        folder = _episodes_of(home)
        names = (fact.key.removeprefix(folder) for fact in self._blobs.list(folder))
        return {name.removesuffix(MCAP) for name in names if name.endswith(MCAP) and "/" not in name}

    def before_dropping(self, home: Home) -> None:
        """Announce changes, so that readers look again, at the shards first, when files disappear while they list."""
        self._blobs.announce(_folder_of(home))
        self._blobs.announce(_episodes_of(home).rstrip("/"))

    def drop(self, home: Home, episode_ids: Iterable[str]) -> None:
        folder = _episodes_of(home)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: self._blobs.delete(f"{folder}{name}{MCAP}"), episode_ids))

    def read_marker(self) -> bytes:
        return self._blobs.get(MARKER)

    def replace_marker(self, data: bytes) -> None:
        self._blobs.put(MARKER, data)

    def look_again(self) -> None:
        self._store.catalogue.refresh()

    def _commit(self, index: ShardIndex) -> None:
        """Put the index; it is the same for the same shard, whoever writes it."""
        key, document = f"{_folder_of(index.home)}/{index.sha256}{JSON}", encode_index(index)
        if not self._blobs.put_if_absent(key, document) and self._blobs.get(key) != document:
            self._blobs.put(key, document)
        self._blobs.announce(_folder_of(index.home))


def _folder_of(home: Home) -> str:
    return f"{PREFIX}{home.robot}/{home.day or FLAT}"


def _episodes_of(home: Home) -> str:
    return f"episodes/{home.robot}/{home.day}/" if home.day else f"episodes/{home.robot}/"
