"""The shards of one folder on both sides of a copy, and copying those that are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from opc_ros.errors import BlobNotFound, StoreError
from opc_ros.store.blobs import Blobs
from opc_ros.store.layout import FLAT, JSON, MCAP
from opc_ros.store.shard_checks import PREFIX, read_index
from opc_ros.store.shard_format import PackedEpisode, ShardIndex, encode_index


class PackedFolder:
    """What shards contain of `episodes/<robot>[/<day>]`, by indexes that can be read."""

    def __init__(self, blobs: Blobs, folder: str) -> None:
        self._blobs = blobs
        _, robot, *day = folder.split("/")
        self._folder = f"{PREFIX}{robot}/{day[0] if day else FLAT}"
        self._indexes: list[ShardIndex] = []
        self._found: dict[str, dict[str, tuple[str, PackedEpisode]]] = {}
        sizes = {fact.key: fact.size for fact in blobs.list(f"{self._folder}/")}
        for key in sizes:
            if key.endswith(JSON):
                try:
                    index = read_index(blobs, key)
                except StoreError:
                    continue  # as if there were no shard: each episode is then looked up by itself
                if sizes.get(key.removesuffix(JSON) + MCAP) == index.size:
                    self._add(index)

    def has(self, episode_id: str, file_sha256: str) -> bool:
        return file_sha256 in self._found.get(episode_id, {})

    def has_id(self, episode_id: str) -> bool:
        return episode_id in self._found

    def read(self, episode_id: str, file_sha256: str) -> bytes | None:
        """The bytes of exactly this file, if a shard has them."""
        shard, one = self._found.get(episode_id, {}).get(file_sha256, ("", None))
        if one is None:
            return None
        try:
            data = self._blobs.range(shard, one.offset, one.length)
        except BlobNotFound:
            return None
        return data if hashlib.sha256(data).hexdigest() == file_sha256 else None

    def copy_to(self, target: PackedFolder, wanted: Collection[str]) -> tuple[int, int]:
        """Copy complete shards that contain anything wanted; returns how many, and their bytes.

        A damaged shard is not copied: its intact episodes are then copied one by one.
        """
        shards = size = 0
        for index in self._indexes:
            is_there = all(target.has(one.id, one.file_sha256) for one in index.episodes)
            if is_there or not any(one.id in wanted for one in index.episodes):
                continue
            key = f"{self._folder}/{index.sha256}"
            data = self._blobs.get(key + MCAP)
            if hashlib.sha256(data).hexdigest() != index.sha256:
                continue
            target._put(key, data, index)
            shards += 1
            size += len(data)
        if shards:
            target._blobs.announce(self._folder)
        return shards, size

    def _put(self, key: str, data: bytes, index: ShardIndex) -> None:
        """Put a shard and its index; whatever else has these names is truncated or damaged, and is replaced."""
        if not self._blobs.put_if_absent(key + MCAP, data) and self._blobs.get(key + MCAP) != data:
            self._blobs.put(key + MCAP, data)
        document = encode_index(index)
        if not self._blobs.put_if_absent(key + JSON, document) and self._blobs.get(key + JSON) != document:
            self._blobs.put(key + JSON, document)
        self._add(index)

    def _add(self, index: ShardIndex) -> None:
        self._indexes.append(index)
        for one in index.episodes:
            shard = f"{self._folder}/{index.sha256}{MCAP}"
            self._found.setdefault(one.id, {})[one.file_sha256] = (shard, one)
