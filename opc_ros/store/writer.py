"""Recording one episode and committing it: whole, checked and on the disk, or not in the store at all."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from opc_ros.errors import EpisodeDamaged, GraspError, StoreError
from opc_ros.grasp import GraspStep, Label
from opc_ros.store.documents import encode_document
from opc_ros.store.durable import (
    is_same_file,
    make_folder,
    store_error,
    sync_folder,
    wait_for_lock,
    write_all,
    write_synced,
)
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.episode_writing import EpisodeFileWriter
from opc_ros.store.layout import Layout
from opc_ros.store.quarantine import move_to_quarantine
from opc_ros.store.records import CommittedEpisode, EpisodeHeader, LabelBody, Sidecar, check_stamp, check_text


class EpisodeWriter:
    """An episode on its way into the store; one thread at a time.

    After commit, quarantine or discard it is done. A writer that is simply dropped, or whose process dies, leaves
    a `.part` file that `recover` puts into quarantine.
    """

    def __init__(self, layout: Layout, header: EpisodeHeader, now: Callable[[], int]) -> None:
        self._layout = layout
        self._header = header
        self._now = now
        self._problem: str | None = None
        self._is_done = False
        try:
            self._sink = _claim(layout, header)
            self._file = EpisodeFileWriter(self._sink, header)
        except OSError as error:
            raise store_error(f"episode {header.id}: cannot begin", error) from error

    @property
    def header(self) -> EpisodeHeader:
        return self._header

    @property
    def steps(self) -> int:
        return self._file.steps

    def add_step(self, step: GraspStep) -> None:
        """Append one frame and its step; a step that is not valid is refused and leaves the episode as it was."""
        self._refuse_if_over()
        try:
            self._file.add_step(step)
        except OSError as error:
            raise self._break("cannot write a step", error) from error

    def commit(self, label: Label, *, health: tuple[str, ...] = (), ended_ns: int | None = None) -> CommittedEpisode:
        """Put the episode into the store; when this returns, it is on the disk, re-opened and checked.

        `ended_ns` is when the episode ended, by the clock of its beginning; without it, the stamp of its last frame.
        """
        self._refuse_if_over()
        if self.steps == 0:
            raise GraspError(f"episode {self._header.id}: has no steps, expected at least one")
        end_ns = self._file.last_stamp_ns if ended_ns is None else ended_ns
        check_stamp(f"episode {self._header.id}: end", end_ns)
        for text in (*health, label.labeller):
            check_text(f"episode {self._header.id}", text)
        try:
            self._file.finish(label, ended_ns=end_ns, health=health)
            committed = self._commit_file()
        except OSError as error:
            self._layout.sidecar_part(self._header.robot, self._header.id).unlink(missing_ok=True)
            raise self._break("cannot commit", error) from error
        self._end()
        return committed

    def quarantine(self, reason: str, *, health: tuple[str, ...] = ()) -> Path:
        """Keep what there is, out of the way of scoring; returns where its file is now."""
        self._refuse_if_done()
        for text in (*health, reason):
            check_text(f"episode {self._header.id}", text)
        if self._problem is None:
            try:
                self._file.abort(reason, ended_ns=self._file.last_stamp_ns, health=health)
                os.fsync(self._sink.descriptor)
            except OSError as error:
                self._break("cannot finish the file", error)
        try:
            kept = move_to_quarantine(
                self._layout,
                (self._part,),
                episode_id=self._header.id,
                robot=self._header.robot,
                reason=reason if self._problem is None else f"{reason} ({self._problem})",
                steps=self.steps,
                health=health,
                now_ns=self._now(),
            )
        except OSError as error:
            raise store_error(f"episode {self._header.id}: stays at {self._part}, cannot quarantine", error) from error
        self._end()
        return kept

    def discard(self) -> None:
        """Throw the episode away."""
        self._refuse_if_done()
        try:
            self._part.unlink(missing_ok=True)
        except OSError as error:
            raise store_error(f"episode {self._header.id}: cannot discard", error) from error
        self._end()

    @property
    def _part(self) -> Path:
        return self._layout.file_part(self._header.robot, self._header.id)

    def _commit_file(self) -> CommittedEpisode:
        """Both files reach the disk under their .part names while the bytes are read back; then two renames commit."""
        header, layout = self._header, self._layout
        part, sidecar_part = self._part, layout.sidecar_part(header.robot, header.id)
        syncing = _Sync(self._sink.descriptor)
        try:
            whole = _read_back(part, header, self._sink.sha256())
            sidecar = describe(whole, self._sink.sha256(), self._sink.tell(), committed_ns=self._now())
            write_synced(sidecar_part, encode_sidecar(sidecar))
        except EpisodeDamaged as error:
            self._problem = str(error)
            raise
        finally:
            syncing.wait()
        syncing.raise_if_failed()
        part.rename(layout.file(header.robot, header.id))
        sidecar_part.rename(layout.sidecar(header.robot, header.id))
        sync_folder(part.parent)
        return sidecar.to_committed()

    def _break(self, what: str, error: OSError) -> StoreError:
        broken = store_error(f"episode {self._header.id}: {what}", error)
        self._problem = self._problem or str(broken)
        return broken

    def _refuse_if_over(self) -> None:
        self._refuse_if_done()
        if self._problem is not None:
            raise StoreError(f"{self._problem}; only quarantine or discard are left")

    def _refuse_if_done(self) -> None:
        if self._is_done:
            raise StoreError(f"episode {self._header.id}: already committed, quarantined or discarded")

    def _end(self) -> None:
        self._is_done = True
        self._sink.close()


class _FileSink:
    """An open file that hashes what is written to it; each write reaches the kernel at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._hash = hashlib.sha256()
        self._position = 0

    def write(self, data: bytes) -> int:
        write_all(self.descriptor, data)
        self._hash.update(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def sha256(self) -> str:
        return self._hash.hexdigest()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


class _Sync:
    """An fsync that runs beside other work: it waits for the disk, not for the processor."""

    def __init__(self, descriptor: int) -> None:
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=(descriptor,), name="fsync", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()

    def raise_if_failed(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self, descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            self._error = error


def describe(whole: WholeEpisode, file_sha256: str, file_bytes: int, *, committed_ns: int) -> Sidecar:
    """The sidecar that commits an episode, all of it from the episode's own file."""
    header = whole.header
    return Sidecar(
        id=header.id,
        robot=header.robot,
        behaviour_policy=header.behaviour_policy,
        object_set=header.object_set,
        permit_id=header.permit_id,
        began_ns=header.began_ns,
        duration_ns=max(0, whole.ended_ns - header.began_ns),
        steps=len(whole.steps),
        label=LabelBody.of(whole.label),
        file_sha256=file_sha256,
        file_bytes=file_bytes,
        health=whole.health,
        committed_ns=committed_ns,
    )


def encode_sidecar(sidecar: Sidecar) -> bytes:
    return encode_document("episode", asdict(sidecar))


def _read_back(path: Path, header: EpisodeHeader, file_sha256: str) -> WholeEpisode:
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != file_sha256:
        raise EpisodeDamaged(f"episode {header.id}: {path} reads back as {found}, written was {file_sha256}")
    whole = read_whole(data, where=f"episode {header.id}", are_crcs_checked=False)
    if whole.header != header:
        raise EpisodeDamaged(f"episode {header.id}: {path} reads back with header {whole.header}")
    return whole


def _claim(layout: Layout, header: EpisodeHeader) -> _FileSink:
    """Take the episode's name and hold its file, so that nobody mistakes it for a dead writer's."""
    folder = layout.episodes / header.robot
    make_folder(folder)
    part = layout.file_part(header.robot, header.id)
    while True:
        try:
            sink = _FileSink(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            raise StoreError(
                f"episode {header.id}: {part} exists: another writer has it, or one died: run `opc store recover`"
            ) from None
        wait_for_lock(sink.descriptor)
        if is_same_file(part, sink.descriptor):
            break
        sink.close()
    taken = _find_taken(layout, header)
    if taken is not None:
        part.unlink()
        sink.close()
        raise StoreError(f"episode {header.id}: {taken} exists, expected an id that no episode of the store has")
    return sink


def _find_taken(layout: Layout, header: EpisodeHeader) -> Path | None:
    """Looked up after the claim, so that of two writers with one id at least one sees the other."""
    for robot in layout.robots():
        paths = [layout.file(robot, header.id), layout.sidecar(robot, header.id)]
        if robot != header.robot:
            paths.append(layout.file_part(robot, header.id))
        for path in paths:
            if path.exists():
                return path
    return None
