"""A validation store in a bucket: `s3://bucket/lab` with the same interface as a folder.

Episodes are committed to a spool on this disk and sent from there: the file by a conditional put, then the sidecar by
another, which is the commit, then the folder's mark, which informs pollers. Everything else reads a mirror of the small
documents. The library takes credentials from the environment, and none of our files or messages contain them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from opc_ros.durable import make_folder
from opc_ros.episode import Episode, EpisodeHeader, Label, check_text
from opc_ros.errors import BlobNotFound, StoreError
from opc_ros.store import labels, snapshots
from opc_ros.store.blobs import Blobs
from opc_ros.store.bucket_mirror import BucketMirror
from opc_ros.store.catalogue import Catalogue
from opc_ros.store.catalogue_index import Index
from opc_ros.store.episode_bytes import EpisodeBytes
from opc_ros.store.layout import Place, StoreLayout
from opc_ros.store.object_blobs import ObjectBlobs, open_bucket
from opc_ros.store.quarantine import Quarantined
from opc_ros.store.records import CommittedEpisode
from opc_ros.store.sealed import decode_document, encode_document
from opc_ros.store.selection import EVERYTHING, Selection
from opc_ros.store.snapshots import Snapshot
from opc_ros.store.spool import Sender, SpooledWriter
from opc_ros.store.store import Store, open_store
from opc_ros.store.store_sync import MARKER
from opc_ros.store.writer import EpisodeWriter

SPOOL_VARIABLE = "OPC_SPOOL"  # folder for spools and mirrors


def open_bucket_store(location: Path | str, *, create: bool = False, now: Callable[[], int] = time.time_ns) -> Store:
    """Open `s3://bucket/name`; with `create`, create a store if there is none."""
    blobs = open_bucket(location)
    folder = local_folder(blobs.name)
    return open_store_in(blobs, folder, create=create, now=now)


def open_store_in(
    blobs: Blobs, folder: Path, *, create: bool = False, now: Callable[[], int] = time.time_ns
) -> BucketStore:
    """Open the store in these blobs, with its spool and mirror in a folder.

    A machine that has used the store before may start without the network: what it records waits in the spool.
    """
    layout = StoreLayout(folder / "mirror", has_files=False)
    try:
        marker = blobs.get(MARKER)
    except BlobNotFound:
        if not create:
            raise StoreError(f"{blobs.name}: not a validation store (it has no {MARKER})") from None
        marker = _create(blobs)
    except StoreError:
        if not (create and layout.marker.exists()):
            raise
        marker = layout.marker.read_bytes()
    decode_document(marker, "store", where=f"{blobs.name}/{MARKER}")
    mirror = BucketMirror(blobs, layout)
    mirror.prepare()
    return BucketStore(blobs, folder, mirror, now)


def local_folder(name: str) -> Path:
    """Where this machine keeps the spool and mirror of a store in a bucket."""
    base = os.environ.get(SPOOL_VARIABLE) or os.path.join(
        os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "opc_ros"
    )
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    readable = re.sub(r"[^a-z0-9]+", "-", name.removeprefix("s3://").lower()).strip("-")
    return Path(base).expanduser() / f"{readable}-{hashlib.sha256(f'{endpoint} {name}'.encode()).hexdigest()[:8]}"


def open_shared(location: str) -> Store:
    """One instance for everything that a process unpickles, because a worker handles many tasks."""
    return _open_shared(location, local_folder(open_bucket(location).name))


@functools.cache
def _open_shared(location: str, folder: Path) -> Store:
    return open_store_in(open_bucket(location), folder)


class BucketStore(Store):
    """Episodes, labels and snapshots below one name of a bucket."""

    def __init__(self, blobs: Blobs, folder: Path, mirror: BucketMirror, now: Callable[[], int]) -> None:
        super().__init__(StoreLayout(folder / "mirror", has_files=False), now)
        self._blobs = blobs
        self._folder = folder
        self._mirror = mirror
        self._catalogue = MirrorCatalogue(self._layout, mirror)
        self._contents = EpisodeBytes(self._layout, blobs, self._catalogue.shards, mirror.pull)
        self._spool: Store | None = None
        self._sender: Sender | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait until everything recorded here is in the bucket, or report what is not."""
        if self._sender is not None:
            sender, self._sender, self._spool = self._sender, None, None
            try:
                sender.close()
            except StoreError:
                if error is None:
                    raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process, perhaps on another machine, reads the bucket itself and has its own mirror."""
        if not isinstance(self._blobs, ObjectBlobs):
            raise TypeError("a store in memory cannot go to another process")
        return open_shared, (self._blobs.name,)

    @property
    def writable(self) -> Store:
        """The spool, which holds this machine's half-written episodes."""
        if self._spool is None:
            make_folder(self._folder)
            self._spool = open_store(self._folder / "spool", create=True, now=self._now)
        return self._spool

    @property
    def sender(self) -> Sender:
        if self._sender is None:
            self._sender = Sender(self.writable, self._blobs)
        return self._sender

    def begin(self, header: EpisodeHeader, topics: Mapping[str, str] | None = None) -> EpisodeWriter:
        """Start recording on this disk; after it is committed there, the episode is sent in the background."""
        sender = self.sender
        sender.start()
        return SpooledWriter(self.writable, header, self._find_committed, topics, sender.wake)

    def find(self, episode_id: str) -> CommittedEpisode:
        self._catch_up()
        return super().find(episode_id)

    def read(self, episode_id: str) -> Episode:
        self._catch_up()
        return super().read(episode_id)

    def label(self, episode_id: str, label: Label, *, note: str = "", signature: str = "") -> int:
        self._catch_up()
        return super().label(episode_id, label, note=note, signature=signature)

    def add_label(self, place: Place, label: Label, *, note: str, signature: str = "") -> int:
        """A conditional put, so that two people labelling at once get different revision numbers."""
        check_text(f"episode {place.episode_id}", note + label.labeller)
        self._catalogue.refresh()
        revision = max(labels.taken_revisions(self._layout, place), default=0)
        while True:
            revision += 1
            entry = labels.LabelRevision(place.episode_id, revision, label, self._now(), note, signature)
            data = labels.encode_revision(entry)
            key = self._key(labels.revision_path(self._layout, place, revision))
            if self._blobs.put_if_absent(key, data) or self._blobs.get(key) == data:
                self._blobs.announce(key.rpartition("/")[0])
                return revision

    def take_snapshot(self, selection: Selection = EVERYTHING, *, tag: str = "") -> Snapshot:
        """Write the parts first, then the list that names them, then the tag."""
        self._catch_up()
        snapshot = super().take_snapshot(selection)
        there = {fact.key for fact in self._blobs.list("snapshots/")}
        paths = [
            *(
                snapshots.group_path(self._layout, digest)
                for digest in snapshots.part_digests(self._layout, snapshot.id)
            ),
            snapshots.snapshot_path(self._layout, snapshot.id),
        ]
        for path in paths:
            if self._key(path) not in there:
                self._blobs.put_if_absent(self._key(path), path.read_bytes())
        if tag:
            snapshots.write_tag(self._layout, tag, snapshot.id)
            self._blobs.put(f"tags/{tag}", (self._layout.tags / tag).read_bytes())
        return snapshot

    def snapshot(self, ref: str) -> Snapshot:
        self._mirror.pull_snapshots()
        return super().snapshot(ref)

    def snapshots(self) -> list[str]:
        self._mirror.pull_snapshots()
        return super().snapshots()

    def tags(self) -> dict[str, str]:
        self._mirror.pull_snapshots()
        return super().tags()

    def quarantined(self) -> tuple[list[Quarantined], list[StoreError]]:
        """The quarantine of this machine's spool."""
        return self.writable.quarantined()

    def file_of(self, episode_id: str) -> Path:
        """A copy on this disk, with its bytes checked."""
        place = self.locate(episode_id)
        return self._contents.copy_out(place, self.read_committed(place).file_sha256, self._folder / "files")

    def look_at_everything(self) -> list[str]:
        """List the whole bucket, regardless of its marks."""
        return [f"{key}: no sidecar commits it; its upload was interrupted" for key in self._mirror.pull_everything()]

    def _catch_up(self) -> None:
        """Fetch what this process has just recorded, and what others have recorded and labelled."""
        if self._sender is not None:
            self._sender.send()
        self._mirror.pull()

    def _find_committed(self, episode_id: str) -> Place | None:
        """Without the network this finds nothing, and the conditional put will tell whether an id is taken."""
        try:
            return super()._find_committed(episode_id)
        except StoreError:
            return None

    def _key(self, path: Path) -> str:
        return self._layout.key_of(path)


class MirrorCatalogue(Catalogue):
    """Fetches what is new before it looks."""

    def __init__(self, layout: StoreLayout, mirror: BucketMirror) -> None:
        super().__init__(layout)
        self._mirror = mirror

    def refresh(self) -> Index:
        self._mirror.pull()
        return super().refresh()


def _create(blobs: Blobs) -> bytes:
    first = next(iter(blobs.list()), None)
    if first is not None:
        raise StoreError(f"{blobs.name}: holds {first.key!r} and is no store; create one under a new name")
    if isinstance(blobs, ObjectBlobs):
        blobs.refuse_without_conditions()
    blobs.put_if_absent(MARKER, encode_document("store", {}))
    return blobs.get(MARKER)
