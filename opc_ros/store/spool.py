"""Episodes on their way to a bucket: committed to this machine's disk first, in case the network is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from opc_ros.episode import EpisodeHeader, Label
from opc_ros.errors import BlobNotFound, EpisodeDamaged, StoreError
from opc_ros.store.blobs import Blobs, FolderBlobs
from opc_ros.store.layout import JSON, Home, Place
from opc_ros.store.quarantine import move_to_quarantine
from opc_ros.store.records import CommittedEpisode
from opc_ros.store.store import Store
from opc_ros.store.store_sync import committed_digest, copy_episode, key_of_file
from opc_ros.store.writer import EpisodeWriter

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 30.0


class SpooledWriter(EpisodeWriter):
    """Commits to the spool, and notifies the sender."""

    def __init__(
        self,
        spool: Store,
        header: EpisodeHeader,
        find_committed: Callable[[str], Place | None],
        topics: Mapping[str, str] | None,
        wake: Callable[[], None],
    ) -> None:
        super().__init__(spool.layout, header, spool.now, find_committed, topics)
        self._wake = wake

    def commit(self, label: Label, **more: Any) -> CommittedEpisode:
        committed = super().commit(label, **more)
        self._wake()
        return committed


class Sender:
    """Sends the episodes in a spool, in the background or on demand; what has arrived leaves the spool."""

    def __init__(self, spool: Store, blobs: Blobs) -> None:
        self._spool = spool
        self._here = FolderBlobs(spool.path)
        self._blobs = blobs
        self._sending = threading.Lock()
        self._news = threading.Event()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start sending, including what an earlier process left."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="opc-send", daemon=True)
            self._thread.start()
            self.wake()

    def wake(self) -> None:
        self._news.set()

    def waiting(self) -> list[str]:
        """Sidecars of committed episodes that are not in the bucket yet."""
        return [fact.key for fact in self._here.list("episodes/") if fact.key.endswith(JSON)]

    def send(self) -> None:
        """Send everything that is waiting; raises StoreError if the bucket cannot be reached."""
        with self._sending:
            for key in self.waiting():
                self._send_one(key)

    def close(self) -> None:
        """Try once more, then report what is left."""
        self._is_over.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        try:
            self.send()
        except StoreError as error:
            raise StoreError(
                f"{len(self.waiting())} episodes are in {self._spool.path} and not yet in {self._blobs.name}: {error}; "
                f"`opc store sync {self._spool.path} {self._blobs.name}` sends them later"
            ) from error

    def _send_one(self, key: str) -> None:
        """File, sidecar, announcement, then removal from the spool: killed at any point, the next run continues."""
        try:
            has_file = self._here.head(key_of_file(key)) is not None
            if has_file:
                copy_episode(self._here, self._blobs, key)
            elif committed_digest(self._blobs.get(key), key) != committed_digest(self._here.get(key), key):
                raise EpisodeDamaged(f"{key}: another episode has this id in {self._blobs.name}")
            self._blobs.announce(key.rpartition("/")[0])
            self._here.delete(key_of_file(key))
            self._here.delete(key)
        except BlobNotFound:
            if self._here.head(key) is not None:  # otherwise another process has just sent it
                raise
        except EpisodeDamaged as error:
            self._put_aside(key, str(error))

    def _put_aside(self, key: str, reason: str) -> None:
        _, robot, *day, name = key.split("/")
        place = Place(Home(robot, day[0] if day else ""), name.removesuffix(JSON))
        layout = self._spool.layout
        paths = tuple(path for path in (layout.file(place), layout.sidecar(place)) if path.exists())
        move_to_quarantine(
            layout,
            paths,
            episode_id=place.episode_id,
            robot=robot,
            reason=reason,
            steps=0,
            health=(),
            now_ns=self._spool.now(),
        )

    def _run(self) -> None:
        wait_s = FIRST_RETRY_S
        while not self._is_over.is_set():
            self._news.wait()
            self._news.clear()
            try:
                self.send()
                wait_s = FIRST_RETRY_S
            except (StoreError, OSError):
                # Nothing is lost: it stays on this disk, and is tried again.
                self._is_over.wait(wait_s)
                wait_s = min(2 * wait_s, LAST_RETRY_S)
                self._news.set()
