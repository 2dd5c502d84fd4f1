"""Finds the episodes that are in shards, from the shards' indexes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from opc_ros.documents import read_bytes
from opc_ros.errors import StoreError
from opc_ros.store.layout import JSON, MCAP, Home, Place, StoreLayout, names_in
from opc_ros.store.sealed import SIZE_LIMIT
from opc_ros.store.shard_format import ShardIndex, decode_index

_HOMES_KEPT = 8  # episodes are read folder by folder


class Slice(NamedTuple):
    """Where an episode's bytes are in a shard."""

    key: str  # of the shard
    offset: int
    length: int


class PackedHome:
    """The packed episodes of one folder, as listed by the indexes of its shards."""

    def __init__(self) -> None:
        self.indexes: dict[str, ShardIndex] = {}  # by the shard's sha256
        self.problems: dict[str, str] = {}  # name of an unusable index -> reason
        self._slices: dict[str, dict[str, Slice]] = {}  # episode id -> sha256 of its file -> where

    def add(self, index: ShardIndex, key: str, size: int) -> None:
        """Add an index; episodes beyond the shard's real size are lost and left out."""
        self.indexes[index.sha256] = index
        for one in index.episodes:
            if one.offset + one.length > size:
                continue
            self._slices.setdefault(one.id, {})[one.file_sha256] = Slice(key, one.offset, one.length)

    def find(self, episode_id: str, file_sha256: str) -> Slice | None:
        return self._slices.get(episode_id, {}).get(file_sha256)

    def has_id(self, episode_id: str) -> bool:
        return episode_id in self._slices

    def versions(self, episode_id: str) -> dict[str, Slice]:
        """Every file ever packed under an id, by its sha256; nearly always one or none."""
        return self._slices.get(episode_id, {})


class Shards:
    """Reads folders of shards on demand; several threads may use it."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._lock = threading.Lock()
        self._homes: OrderedDict[Home, tuple[list[str], PackedHome]] = OrderedDict()

    def of(self, home: Home, *, is_fresh: bool = True) -> PackedHome:
        """The packed episodes of a folder; without `is_fresh`, as far as is known."""
        with self._lock:
            known = self._homes.get(home)
            if known is not None and not is_fresh:
                self._homes.move_to_end(home)
                return known[1]
            names = names_in(self._layout.shard_folder(home))
            if known is None or known[0] != names or known[1].problems:
                known = (names, self._read(home, names))
            self._homes[home] = known
            self._homes.move_to_end(home)
            while len(self._homes) > _HOMES_KEPT:
                self._homes.popitem(last=False)
            return known[1]

    def find(self, place: Place, file_sha256: str, *, is_fresh: bool = True) -> Slice | None:
        """Where exactly these bytes of an episode are, if a shard has them."""
        return self.of(place.home, is_fresh=is_fresh).find(place.episode_id, file_sha256)

    def _read(self, home: Home, names: list[str]) -> PackedHome:
        folder, found = self._layout.shard_folder(home), PackedHome()
        for name in names:
            if name.endswith(JSON):
                try:
                    index = self._read_index(folder / name, home)
                except StoreError as error:
                    found.problems[name] = str(error)
                    continue
                size = self._measure(folder / f"{index.sha256}{MCAP}", index, found)
                found.add(index, self._layout.key_of(folder / f"{index.sha256}{MCAP}"), size)
        return found

    def _read_index(self, path: Path, home: Home) -> ShardIndex:
        index = decode_index(read_bytes(path, limit=SIZE_LIMIT, error=StoreError), where=str(path))
        if (index.home, f"{index.sha256}{JSON}") != (home, path.name):
            raise StoreError(f"{path}: is of shard {index.sha256[:12]} of {index.home}, expected of its own name")
        return index

    def _measure(self, shard: Path, index: ShardIndex, found: PackedHome) -> int:
        """The real size of a shard: a cheap check that keeps truncated episodes out of snapshots."""
        if not self._layout.has_files:
            return index.size
        try:
            size = shard.stat().st_size
        except OSError as error:
            found.problems[shard.name] = f"shard {shard}: {error.strerror or error}"
            return 0
        if size != index.size:
            found.problems[shard.name] = f"shard {shard}: has {size} bytes, its index says {index.size}"
        return size
