"""Shards in a folder: written beside, read back from disk, renamed, and committed by their index."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from opc_ros.durable import PART, make_folder, replace_file, sync_folder, try_lock
from opc_ros.errors import StoreError
from opc_ros.store.layout import JSON, MCAP, Home, Place, names_in
from opc_ros.store.shard_checks import refuse_unlike
from opc_ros.store.shard_format import HashedFile, LooseEpisode, ShardIndex, ShardWriter, encode_index
from opc_ros.store.store import Store


class FolderShards:
    """Shards and original episode files of a store in a folder."""

    at_once = 1  # episodes to read: there is one disk

    def __init__(self, store: Store) -> None:
        self._store = store
        self._layout = store.layout

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one packer at a time: a second would pack the same episodes again."""
        make_folder(self._layout.shards)
        descriptor = os.open(self._layout.shards, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if try_lock(descriptor) is False:
                raise StoreError(f"{self._store.path}: another `opc store pack` is at work; let it finish")
            yield
        finally:
            os.close(descriptor)

    def finish_broken_off(self) -> list[str]:
        """Left to `recover`, which checks everything that a crash may have left."""
        return []

    def write(self, home: Home, members: Iterable[tuple[LooseEpisode, bytes]]) -> ShardIndex | None:
        folder = self._layout.shard_folder(home)
        make_folder(folder)
        part = folder / f".{uuid.uuid4().hex}{MCAP}{PART}"
        try:
            with part.open("xb") as file:
                sink = HashedFile(file)
                writer = ShardWriter(sink)
                for one, data in members:
                    writer.add(one.episode_id, one.file_sha256, one.began_ns, data)
                writer.finish()
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that reading back reads the disk
            if not writer.episodes:
                return None
            index = ShardIndex(home, sink.sha256(), sink.tell(), tuple(writer.episodes))
            refuse_unlike(part.read_bytes(), index, where=str(part))
            part.rename(folder / f"{index.sha256}{MCAP}")
            sync_folder(folder)
            replace_file(folder / f"{index.sha256}{JSON}", encode_index(index))
            return index
        finally:
            part.unlink(missing_ok=True)

    def originals(self, home: Home) -> set[str]:
        """Ids of the episodes that have a file of their own."""
        return {name.removesuffix(MCAP) for name in names_in(self._layout.home_folder(home)) if name.endswith(MCAP)}

    def before_dropping(self, home: Home) -> None:
        """Nothing to do: readers find new shards by themselves."""

    def drop(self, home: Home, episode_ids: Iterable[str]) -> None:
        for episode_id in episode_ids:
            self._layout.file(Place(home, episode_id)).unlink(missing_ok=True)
        sync_folder(self._layout.home_folder(home))

    def read_marker(self) -> bytes:
        return self._layout.marker.read_bytes()

    def replace_marker(self, data: bytes) -> None:
        replace_file(self._layout.marker, data)

    def look_again(self) -> None:
        """Nothing to do: indexes are found where they were written."""
