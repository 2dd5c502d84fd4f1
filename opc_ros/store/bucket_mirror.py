"""What a machine keeps of a store in a bucket: sidecars, labels, snapshots and tags, but no episode files.

It may be deleted at any time. For each folder of the bucket, a small object changes after every commit or label in it;
a pull lists these objects, and then only the folders whose mark has changed. A poll with nothing new therefore takes
one request per thousand folders, and sees everything announced before it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from opc_ros.documents import canonical_json
from opc_ros.durable import make_folder, store_error, swap_file
from opc_ros.errors import BlobNotFound
from opc_ros.store.blobs import BlobFacts, Blobs
from opc_ros.store.layout import JSON, MCAP, Home, StoreLayout
from opc_ros.store.object_blobs import MARKS
from opc_ros.store.shards import Shards
from opc_ros.store.store_sync import MARKER

AT_ONCE = 16  # concurrent requests
STATE = "marks.json"


class BucketMirror:
    """Brings a folder up to date with a bucket; several processes may share the folder."""

    def __init__(self, blobs: Blobs, layout: StoreLayout) -> None:
        self._blobs = blobs
        self._layout = layout
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Create the folder if there is none."""
        try:
            for folder in self._layout.folders:
                make_folder(folder)
            if not self._layout.marker.exists():
                swap_file(self._layout.marker, self._blobs.get(MARKER))
        except OSError as error:
            raise store_error(str(self._layout.root), error) from error

    def pull(self) -> None:
        """Fetch what is new since the last pull."""
        with self._lock:
            before = self._read_state()
            # Read the marks before the folders, so that a folder is never older than its mark.
            now = {fact.key: fact.mark for fact in self._blobs.list(MARKS)}
            changed = [key for key, mark in now.items() if before.get(key) != mark]
            for key in sorted(changed, key=_shards_first):
                folder = key.removeprefix(MARKS)
                self._pull_folder(folder, list(_directly_in(self._blobs.list(f"{folder}/"), folder)))
            if changed or before.keys() - now.keys():
                self._write(self._layout.root / STATE, canonical_json(now).encode())

    def pull_everything(self) -> list[str]:
        """List the whole bucket regardless of marks, and forget what is gone; returns files without a commit."""
        self.pull()
        with self._lock:
            found: dict[str, list[BlobFacts]] = {}
            for prefix in ("shards/", "episodes/", "labels/"):
                for fact in self._blobs.list(prefix):
                    found.setdefault(fact.key.rpartition("/")[0], []).append(fact)
            alone: list[str] = []
            for folder, facts in found.items():
                keys = {fact.key for fact in facts}
                alone += [key for key in keys if key.endswith(MCAP) and key.removesuffix(MCAP) + JSON not in keys]
                self._pull_folder(folder, facts)
                for path in self._local(folder):
                    if f"{folder}/{path.name}" not in keys:
                        path.unlink(missing_ok=True)
        self.pull_snapshots()
        return sorted(alone)

    def pull_snapshots(self) -> None:
        """Snapshots are named by their content, so only new names are fetched; tags can move, so all are fetched."""
        with self._lock:
            known = {str(path.relative_to(self._layout.root)) for path in self._layout.snapshots.rglob(f"*{JSON}")}
            keys = [fact.key for fact in self._blobs.list("snapshots/") if fact.key not in known]
            tags = [fact.key for fact in self._blobs.list("tags/")]
            self._fetch([*keys, *tags])
            for path in self._layout.tags.iterdir():
                if f"tags/{path.name}" not in tags and not path.name.startswith("."):
                    path.unlink(missing_ok=True)

    def _pull_folder(self, folder: str, facts: list[BlobFacts]) -> None:
        """Fetch a folder's documents; a sidecar counts only with its file or a shard of it, an index with its shard."""
        keys = {fact.key for fact in facts}
        wanted = [
            key
            for key in keys
            if key.endswith(JSON) and (folder.startswith("labels/") or key.removesuffix(JSON) + MCAP in keys)
        ]
        if folder.startswith("episodes/") and len(wanted) < sum(key.endswith(JSON) for key in keys):
            _, robot, *day = folder.split("/")
            packed = Shards(self._layout).of(Home(robot, day[0] if day else ""))
            alone = [key for key in keys if key.endswith(JSON) and key.removesuffix(JSON) + MCAP not in keys]
            wanted += [key for key in alone if packed.has_id(key.rpartition("/")[2].removesuffix(JSON))]
        known = {f"{folder}/{path.name}" for path in self._local(folder)}
        self._fetch(sorted(key for key in wanted if key not in known))

    def _local(self, folder: str) -> list[Path]:
        try:
            with os.scandir(self._layout.root / folder) as entries:
                return [Path(entry.path) for entry in entries if entry.name.endswith(JSON) and entry.is_file()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _fetch(self, keys: Iterable[str]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._fetch_one, keys))

    def _fetch_one(self, key: str) -> None:
        try:
            self._write(self._layout.root / key, self._blobs.get(key))
        except BlobNotFound:
            return  # removed after it was listed

    def _write(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            swap_file(path, data)
        except OSError as error:
            raise store_error(f"{path}: cannot be written", error) from error

    def _read_state(self) -> dict[str, str]:
        """Read the state of the last pull; if it is unreadable, every folder is listed again."""
        try:
            state = json.loads((self._layout.root / STATE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return {str(key): str(mark) for key, mark in state.items()} if isinstance(state, dict) else {}


def _shards_first(key: str) -> tuple[bool, str]:
    """Sort shards first, because sidecars of packed episodes count once their shards are known."""
    return not key.startswith(f"{MARKS}shards/"), key


def _directly_in(facts: Iterable[BlobFacts], folder: str) -> Iterator[BlobFacts]:
    return (fact for fact in facts if fact.key.rpartition("/")[0] == folder)
