"""Carries committed episodes and labels from a robot's disk to the lab's store; keeps what is not acknowledged."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from opc_ros.durable import make_folder, store_error, write_all
from opc_ros.errors import LabUnreachable, OpcError, TransferError
from opc_ros.store import CommittedEpisode, Selection, Store, labels, open_store
from opc_ros.store.layout import Place
from opc_ros.transfer.call import CHUNK_BYTES
from opc_ros.transfer.channel import Asking, ask_json

_MOST_ROUNDS = 8  # an episode whose bytes keep arriving wrong waits for the next look
_DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class CourierView:
    """The state of a courier."""

    carried: int = 0  # episodes and labels since it started
    waiting: int = 0
    reason: str = ""  # why it does not carry what is waiting
    is_refused: bool = False  # the lab refused it, rather than being unreachable: a person has to look


class Courier:
    """One robot's courier; the lab's acknowledgements are kept in a file, so that each item is sent only once."""

    def __init__(
        self,
        channel: Asking,
        robot: str,
        store: Path,
        acknowledged: Path,
        *,
        keep_days: float = 7.0,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`store` is on the robot's disk, and may contain other robots' episodes.

        Acknowledged episodes are deleted there `keep_days` after they were recorded.
        """
        self._channel, self._robot = channel, robot
        self._store: Store = open_store(store, create=True)
        self._file = acknowledged
        self._keep_s, self._now_s = keep_days * _DAY_S, now_s
        self._done = set(_read_lines(acknowledged))
        self.view = CourierView()

    def carry(self, *, is_stopping: Callable[[], bool] = lambda: False) -> CourierView:
        """Carry what is waiting, oldest first; if one is refused, the others are still sent."""
        reason, is_refused, left = "", False, 0
        carried = self.view.carried
        for key, act in list(self._waiting()):
            if is_stopping() or (reason and not is_refused):
                left += 1
                continue
            try:
                act()
                self._acknowledge(key)
                carried += 1
            except LabUnreachable as error:
                reason, is_refused, left = str(error), False, left + 1
            except OpcError as error:
                reason, is_refused, left = str(error), True, left + 1
        self.view = CourierView(carried, left, reason, is_refused)
        return self.view

    def forget(self) -> int:
        """Delete old episodes that the lab has acknowledged; returns how many."""
        oldest_ns = int((self._now_s() - self._keep_s) * 1e9)
        removed = 0
        for episode in self._store.episodes(Selection(robots=(self._robot,)), on_damage=lambda error: None):
            if episode.began_ns < oldest_ns and _key(episode) in self._done:
                place = self._store.locate(episode.id)
                # The sidecar first: without it the episode no longer exists, whatever happens next.
                self._store.layout.sidecar(place).unlink(missing_ok=True)
                self._store.layout.file(place).unlink(missing_ok=True)
                removed += 1
        return removed

    def _waiting(self) -> Iterator[tuple[str, Callable[[], None]]]:
        layout = self._store.layout
        own = Selection(robots=(self._robot,))
        for episode in self._store.page(own, count=1_000_000, is_newest_first=False):
            if _key(episode) not in self._done:
                yield _key(episode), lambda episode=episode: self._carry_episode(episode)  # type: ignore[misc]
        for file in labels.all_label_files(layout):
            key = f"{file.episode_id}.{file.revision}"
            if not file.is_damaged and key not in self._done and self._is_own(file.episode_id):
                yield key, lambda file=file: self._carry_label(file)  # type: ignore[misc]

    def _is_own(self, episode_id: str) -> bool:
        place = self._store.catalogue.locate(episode_id)
        return place is not None and place.robot == self._robot

    def _carry_episode(self, episode: CommittedEpisode) -> None:
        place = self._store.locate(episode.id)
        sidecar = self._store.layout.sidecar(place).read_bytes()
        path, data = f"/episodes/{episode.id}", b""
        for _ in range(_MOST_ROUNDS):
            told = ask_json(self._channel, "POST", path, sidecar)
            if told.get("is_kept") is True:
                return
            data = data or self._bytes_of(place, episode)
            have = told.get("have")
            while type(have) is int and 0 <= have < episode.file_bytes:
                piece = data[have : have + CHUNK_BYTES]
                have = ask_json(self._channel, "PUT", f"{path}?from={have}", piece).get("have")
        raise TransferError(f"episode {episode.id}: the lab does not keep it, however often it is sent")

    def _bytes_of(self, place: Place, episode: CommittedEpisode) -> bytes:
        """The file's bytes as they are, since the lab checks them; bytes of packed episodes are checked here."""
        file = self._store.layout.file(place)
        return file.read_bytes() if file.exists() else self._store.contents.read(place, episode.file_sha256)

    def _carry_label(self, file: labels.LabelFile) -> None:
        ask_json(self._channel, "POST", f"/labels/{file.episode_id}", file.path.read_bytes())

    def _acknowledge(self, key: str) -> None:
        try:
            make_folder(self._file.parent)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                write_all(descriptor, (json.dumps(key) + "\n").encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise store_error(f"{self._file}: cannot be written", error) from error
        self._done.add(key)


def _key(episode: CommittedEpisode) -> str:
    return f"{episode.id} {episode.file_sha256}"


def _read_lines(path: Path) -> Iterator[str]:
    """Read the acknowledgements; a half-written line after a power cut is asked about again."""
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            key = json.loads(line)
        except ValueError:
            continue
        if isinstance(key, str):
            yield key
