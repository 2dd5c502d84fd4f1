"""A bucket in memory whose network fails when told to, and the machines of a lab that work on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from opc_ros.errors import StoreError
from opc_ros.store.blobs import BlobFacts, Blobs
from opc_ros.store.bucket_store import BucketStore, open_store_in
from opc_ros.store.object_blobs import ObjectBlobs
from tests.store.grasps import make_episode


class Network(ObjectBlobs):
    """Objects in this process's memory, behind a network that counts requests and can be cut after some of them."""

    def __init__(self) -> None:
        from obstore.store import MemoryStore

        super().__init__(MemoryStore(), "s3://memory/lab")
        self.left = 10**9  # writes and removals
        self.is_up = True
        self.lock = threading.Lock()
        self.lists = 0
        self.gets = 0

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._count()
        return super().put_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._count()
        super().put(key, data)

    def get(self, key: str) -> bytes:
        self._check()
        self.gets += 1
        return super().get(key)

    def list(self, prefix: str = "") -> Iterator[BlobFacts]:
        self._check()
        self.lists += 1
        return super().list(prefix)

    def delete(self, key: str) -> None:
        self._count()
        super().delete(key)

    def _count(self) -> None:
        with self.lock:
            self.left -= 1
            self._check()

    def _check(self) -> None:
        if self.left < 0 or not self.is_up:
            raise StoreError("no route to the bucket")


def machine(blobs: Blobs, folder: Path) -> BucketStore:
    return open_store_in(blobs, folder)


def append_and_send(store: BucketStore, name: str, **more: object) -> None:
    store.append(make_episode(name, image_size=16, **more))  # type: ignore[arg-type]
    store.sender.send()
